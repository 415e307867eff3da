package endtoend

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// kills returns how often crawlers are to be killed: a few times, unless PARLEY_KILLS gives another number.
func kills(t *testing.T) int {
	s := os.Getenv("PARLEY_KILLS")
	if s == "" {
		return 8
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("PARLEY_KILLS=%s: want a number", s)
	}
	return n
}

// TestCrawlKilled kills crawlers and readers of their events at random instants. In the end the collection
// equals that of an undisturbed crawler: no page is lost, none is stored twice, and no event is lost,
// delivered twice or out of order.
func TestCrawlKilled(t *testing.T) {
	n := kills(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	t.Run("crawl", func(t *testing.T) {
		t.Parallel()
		killCrawl(t, rand.New(rand.NewPCG(seed, 1)), max(1, n/4))
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		killRun(t, rand.New(rand.NewPCG(seed, 2)), max(1, n/2))
	})
	t.Run("announcing site", func(t *testing.T) {
		t.Parallel()
		killTold(t, rand.New(rand.NewPCG(seed, 3)), max(1, n-n/4-n/2))
	})
}

// killCrawl kills crawls that end by themselves.
func killCrawl(t *testing.T, rnd *rand.Rand, n int) {
	site := newPaper(t)
	dir := t.TempDir()
	calm := &crawling{t: t, dir: filepath.Join(dir, "calm"), args: []string{"crawl", site.URL + "/"}}
	began := time.Now()
	calm.start()
	calm.finished()
	took := time.Since(began)
	if diff := calm.stands(); !maps.Equal(diff, site.readers(0)) {
		t.Fatalf("undisturbed: %s", firstDifference(diff, site.readers(0)))
	}
	want := calm.holding(nil)
	for round := 0; n > 0; round++ {
		c := &crawling{t: t, dir: filepath.Join(dir, fmt.Sprint("killed", round)), args: append(slices.Clone(calm.args),
			"--strategy", []string{"breadth-first", "opic", "larger-sites-first"}[round%3], "--coding", []string{"gzip", "none", "zstd"}[round%3])}
		x := startIndexer(t, c.dir)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		seed := rnd.Uint64()
		others.Go(func() { x.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
		c.start()
		for n > 0 {
			time.Sleep(time.Duration(rnd.Int64N(int64(took)))) // a random instant
			if !c.kill() {
				break
			}
			n--
			c.start()
		}
		c.finished()
		stop()
		others.Wait()
		same(t, c.verify(x), want)
	}
}

func same(t *testing.T, got, want holding) {
	t.Helper()
	if !maps.Equal(got.pages, want.pages) {
		t.Errorf("the collection differs from that of an undisturbed crawl: %s", firstDifference(got.pages, want.pages))
	}
}

// killRun kills crawlers that keep running, while new editions appear.
func killRun(t *testing.T, rnd *rand.Rand, n int) {
	const editions = 2
	site := newPaper(t)
	for round := 0; n > 0; round++ {
		site.edition.Store(0)
		dir := t.TempDir()
		args := []string{"run", site.URL + "/", "--policy", "thesis", "--min-period", "1s", "--max-period", "1s"}
		calm := &crawling{t: t, dir: filepath.Join(dir, "calm"), args: args}
		c := &crawling{t: t, dir: filepath.Join(dir, "killed"), args: append(slices.Clone(args), "--max-warc", "200KB",
			"--coding", []string{"none", "zstd", "gzip"}[round%3], "--store", []string{"both", "warc"}[round%2])}
		x := startIndexer(t, c.dir)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		seed := rnd.Uint64()
		others.Go(func() { x.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
		calm.start()
		c.start()
		for e := range editions + 1 {
			site.edition.Store(int64(e))
			want := func() map[string]string { return site.readers(e) }
			for k := 0; k < 2 && n > 0; k++ {
				time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond) // a random instant
				if !c.kill() {
					t.Fatalf("the crawler has ended\n%s", c.p.said())
				}
				n--
				c.start()
			}
			calm.until(fmt.Sprint("undisturbed, edition ", e), want, every)
			c.until(fmt.Sprint("killed, edition ", e), want, every)
		}
		calm.stop()
		c.stop()
		stop()
		others.Wait()
		same(t, c.verify(x), calm.holding(nil))
	}
}

// killTold kills crawlers of a site that announces its changes, while it changes.
func killTold(t *testing.T, rnd *rand.Rand, n int) {
	version := 0
	page := func(i int) string {
		version++
		return fmt.Sprintf("<!doctype html><title>Page %d</title><p>Page %[1]d, version %d. <a href=/p%d.html>next</a> <a href=/lost%d.html>lost</a></p>",
			i, version, (i+1)%120, i%9)
	}
	files := map[string]string{}
	for i := range 80 {
		files[fmt.Sprintf("p%d.html", i)] = page(i)
	}
	files["index.html"] = page(120)
	site := sitetest.NewSite(t, files)
	site.Watch()
	want := func() map[string]string {
		m := map[string]string{}
		for u, body := range site.Pages() {
			m[u] = "held " + protocol.Sum([]byte(body)).String()
		}
		return m
	}
	for round := 0; n > 0; round++ {
		dir := t.TempDir()
		args := []string{"run", site.Base, "--coding", "none", "--told-budget", "-1"} // however many edits there are until the end
		calm := &crawling{t: t, dir: filepath.Join(dir, "calm"), args: args}
		c := &crawling{t: t, dir: filepath.Join(dir, "killed"), args: args}
		x := startIndexer(t, c.dir)
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		seed := rnd.Uint64()
		others.Go(func() { x.disturb(ctx, rand.New(rand.NewPCG(seed, 1))) })
		edits := rand.New(rand.NewPCG(seed, 2))
		calm.start()
		c.start()
		others.Go(func() {
			moved := round << 20
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(edits.IntN(20)) * time.Millisecond): // at a human pace
				}
				i := edits.IntN(120)
				name := fmt.Sprintf("p%d.html", i)
				_, err := os.Stat(filepath.Join(site.Dir, name))
				switch k := edits.IntN(10); {
				case k < 7 || err != nil:
					site.Write(name, page(i))
				case k < 9:
					site.Remove(name)
				default:
					moved++
					site.Rename(name, fmt.Sprintf("moved/m%d.html", moved))
				}
			}
		})
		for k := 0; k < 4 && n > 0; k++ {
			time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond) // a random instant
			if !c.kill() {
				t.Fatalf("the crawler has ended\n%s", c.p.said())
			}
			n--
			c.start()
		}
		x.until(150) // so that it received changes, and not only a snapshot
		stop()
		others.Wait()
		calm.until("undisturbed", want, onlyHeld)
		c.until("killed", want, onlyHeld)
		calm.stop()
		c.stop()
		got, other := c.verify(x), calm.holding(nil)
		if !maps.Equal(got.held, other.held) {
			t.Errorf("%d pages are stored, but %d by an undisturbed crawler", len(got.held), len(other.held))
		}
		for u := range got.held {
			// A renamed page is a copy for a crawler that fetched it before the old name was gone.
			if got.pages[u] != other.pages[u] && got.copies[u] == other.copies[u] {
				t.Errorf("%s is %s, but %s in an undisturbed crawl", u, got.pages[u], other.pages[u])
			}
		}
	}
}
