//go:build unix

package collection_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// crawlTurn answers entries like a documentation site: 40 links a page, most of them
// to the same 30 pages, some to pages near it.
func crawlTurn(rnd *rand.Rand, entries []frontier.Entry, origin string, pages int, now time.Time) *collection.Commit {
	t := &collection.Commit{}
	for _, e := range entries {
		var d protocol.Digest
		binary.LittleEndian.PutUint64(d[:], rnd.Uint64())
		v := collection.Visit{Page: e.Page, Asked: now, Status: 200, Type: "text/html", ETag: `"5e-63a1b2c3d4"`, LastModified: "Tue, 01 Jul 2025 10:00:00 GMT",
			Modified: now.AddDate(0, -1, 0), Title: "A page of the documentation about something", Language: "en", Digest: d, Parsed: d, Latency: 3 * time.Millisecond, Took: 5 * time.Millisecond}
		for i := range 40 {
			n := i
			if i >= 30 {
				n = min(pages-1, int(e.Page)*10+i-30)
			}
			v.Links = append(v.Links, collection.Find{URL: fmt.Sprintf("%s/docs/reference/section-%d/page-number-%d.html", origin, n%50, n), Depth: 1 + n/1000, By: collection.ByLink})
		}
		t.Visits = append(t.Visits, v)
	}
	return t
}

// BenchmarkCrawl commits pages of one site, 1,000 in a transaction; the CPU time
// to generate them is excluded.
func BenchmarkCrawl(b *testing.B) {
	const pages = 20_000
	for _, links := range []bool{true, false} {
		b.Run(fmt.Sprintf("links=%v", links), func(b *testing.B) {
			var used time.Duration
			n := 0
			for b.Loop() {
				dir := b.TempDir()
				c := open(b, dir, &collection.Options{NoLinks: !links})
				c.Commit(&collection.Commit{Finds: []collection.Find{{URL: "https://docs.example.org/", By: collection.ByPerson}}})
				rnd := rand.New(rand.NewPCG(1, 2))
				for {
					list := must.Get(c.Queue().Head(1, frontier.Entry{}, 1000))
					if len(list) == 0 {
						break
					}
					n += len(list)
					t := crawlTurn(rnd, list, "https://docs.example.org", pages, time.Now())
					start := cpu()
					must.Get(c.Commit(t))
					used += cpu() - start
				}
				size := must.Get(c.Used())
				b.ReportMetric(float64(size)/float64(c.Len()), "used-B/page")
				c.Close()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(n), "cpu-µs/page")
			b.ReportMetric(float64(n)/float64(b.N), "pages")
		})
	}
}

// BenchmarkQueue makes URLs known, 1,000 in a transaction, cycling through many sites,
// and then pops pages from as many sites as possible and schedules each
// again: the load that a crawler of many small sites puts on the file.
// PARLEY_BENCH_URLS sets the number of URLs; there are a tenth as many pops.
func BenchmarkQueue(b *testing.B) {
	urls := 200_000
	if s := os.Getenv("PARLEY_BENCH_URLS"); s != "" {
		fmt.Sscan(s, &urls)
	}
	sites := max(10, urls/100)
	for b.Loop() {
		dir := b.TempDir()
		c := open(b, dir, nil)
		rnd := rand.New(rand.NewPCG(1, 2))
		turn := &collection.Commit{}
		start, used := time.Now(), cpu()
		for i := range urls {
			s := rnd.IntN(sites)
			turn.Finds = append(turn.Finds, collection.Find{Depth: rnd.IntN(6), By: collection.ByLink,
				URL: fmt.Sprintf("https://www.site-%d.example.org/docs/%d/the-page-of-a-name-%d.html", s, rnd.IntN(30), i)})
			if len(turn.Finds) == 1000 || i == urls-1 {
				must.Get(c.Commit(turn))
				turn.Finds = turn.Finds[:0]
			}
		}
		b.ReportMetric(float64(urls)/time.Since(start).Seconds(), "inserts/s")
		b.ReportMetric(float64((cpu()-used).Microseconds())/float64(urls), "cpu-µs/insert")
		st, _ := os.Stat(filepath.Join(dir, "state.db"))
		b.ReportMetric(float64(st.Size())/float64(urls), "file-B/URL")
		used1 := must.Get(c.Used())
		b.ReportMetric(float64(used1)/float64(urls), "used-B/URL")
		b.ReportMetric(float64(c.Memory())/float64(urls), "seen-B/URL")
		start = time.Now()
		c.Close()
		c = open(b, dir, nil)
		b.ReportMetric(time.Since(start).Seconds()*1e6/float64(urls), "open-s/M")

		start, used = time.Now(), cpu()
		n := 0
		for n < urls/10 {
			var t collection.Commit
			for len(t.Visits) < 1000 {
				list := must.Get(c.Queue().Head(frontier.SiteID(1+rnd.IntN(sites)), frontier.Entry{}, 1))
				if len(list) == 0 || slicesHas(t.Visits, list[0].Page) {
					continue
				}
				v := collection.Visit{Page: list[0].Page, Asked: time.Now(), Status: 404}
				if os.Getenv("PARLEY_BENCH_VISITS") != "" {
					v = crawlTurn(rnd, list, "", 0, time.Now()).Visits[0]
					v.Links = nil
				}
				t.Visits = append(t.Visits, v)
			}
			must.Get(c.Commit(&t))
			n += len(t.Visits)
		}
		b.ReportMetric(float64(n)/time.Since(start).Seconds(), "pops/s")
		b.ReportMetric(float64((cpu()-used).Microseconds())/float64(n), "cpu-µs/pop")
		c.Close()
	}
}

func slicesHas(list []collection.Visit, id frontier.PageID) bool {
	for i := range list {
		if list[i].Page == id {
			return true
		}
	}
	return false
}
