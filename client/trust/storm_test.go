package trust_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/trust"
)

// Every URL that was said is told with its last word, or its site is degraded
// later than that: so no last state is lost. Checked against plain maps.
func TestAStormLosesNoLastWord(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		storm := trust.Storm[int]{PerSite: 5 + r.IntN(30), MaxBytes: 4000 + r.IntN(40_000)}
		last := make(map[int]map[string]int) // said and not yet heard of
		heard := func(out []trust.Said[int]) {
			for _, s := range out {
				if want, ok := last[s.Site][s.URL]; !ok || want != int(s.Claim.At.Unix()) {
					t.Fatalf("seed %d: %v was told of as of %d, want %d (%v)", seed, s.URL, s.Claim.At.Unix(), want, ok)
				}
				delete(last[s.Site], s.URL)
			}
		}
		degraded := func() {
			sites, all := storm.Degraded()
			if all {
				t.Fatal("all are degraded")
			}
			for _, k := range sites {
				delete(last, k)
			}
		}
		for n := range 3000 {
			site := r.IntN(12)
			url := fmt.Sprintf("https://%d.example/%d", site, r.IntN(1+site*10))
			if last[site] == nil {
				last[site] = make(map[string]int)
			}
			last[site][url] = n
			storm.Add(trust.Said[int]{Site: site, URL: url, Claim: trust.Claim{At: time.Unix(int64(n), 0)}})
			switch r.IntN(40) {
			case 0:
				// What is taken between a drop and its being named is of before the look.
				heard(storm.Next(r.IntN(60)))
			case 1:
				degraded()
			}
		}
		heard(storm.Next(1 << 20))
		degraded()
		if storm.Len() != 0 {
			t.Fatalf("seed %d: %d URLs are held, and were not told of", seed, storm.Len())
		}
		for site, urls := range last {
			if len(urls) > 0 {
				t.Fatalf("seed %d: site %d: %d URLs were lost, and nobody looks at it", seed, site, len(urls))
			}
		}
	}
}

func TestAStormIsFair(t *testing.T) {
	var storm trust.Storm[string]
	for i := range 1000 {
		storm.Add(trust.Said[string]{Site: "loud", URL: fmt.Sprint("https://loud.example/", i)})
	}
	storm.Add(trust.Said[string]{Site: "quiet", URL: "https://quiet.example/"})
	for _, s := range storm.Next(2) {
		if s.Site == "quiet" {
			return
		}
	}
	t.Error("a quiet site waits for a loud one")
}

// 2,000 sites of which one in five floods: the memory is bounded, and those
// who say little are heard, not looked at.
func TestAStormStaysWithinItsMemory(t *testing.T) {
	const limit = 4 << 20
	storm := trust.Storm[int]{MaxBytes: limit}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := rand.New(rand.NewPCG(1, 5))
	quiet := make(map[int]bool)
	for n := range 150_000 {
		site := r.IntN(2000)
		url := fmt.Sprintf("https://%d.example/page-%d.html", site, n)
		if site%5 != 0 {
			url = fmt.Sprintf("https://%d.example/", site)
		}
		storm.Add(trust.Said[int]{Site: site, URL: url})
		if n%1000 == 0 {
			storm.Next(100)
		}
		if n%10_000 == 0 {
			sites, _ := storm.Degraded()
			for _, k := range sites {
				quiet[k] = quiet[k] || k%5 != 0
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > limit*5/4 {
		t.Errorf("%d bytes are used, the limit is %d", used, limit)
	}
	bad := 0
	for _, q := range quiet {
		if q {
			bad++
		}
	}
	if bad > 0 {
		t.Errorf("%d sites that say one thing are degraded by those that flood", bad)
	}
	runtime.KeepAlive(&storm)
}
