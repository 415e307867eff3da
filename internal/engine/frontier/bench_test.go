package frontier_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/must"
)

// BenchmarkBatch gives out and takes back pages of many sites.
func BenchmarkBatch(b *testing.B) {
	for _, sites := range []int{100, 10_000, 100_000} {
		for _, size := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("sites=%d/size=%d", sites, size), func(b *testing.B) {
				var store frontier.MemoryStore
				for p := range PageID(1_000_000) {
					store.Put(Entry{Page: p + 1, Site: SiteID(int(p)%sites + 1)})
				}
				f := must.Get(frontier.New(nil, &store, nil))
				must.Get(f.Batch(0, frontier.BatchOptions{Size: 1}))
				n := 0
				for b.Loop() {
					list := must.Get(f.Batch(0, frontier.BatchOptions{Size: size}))
					for _, s := range list {
						n += len(s.Entries)
					}
					f.Return(pages(list))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/page")
			})
		}
	}
}

// BenchmarkMemory finds a million pages of 10,000 sites under OPIC, and reports the frontier's
// memory for each.
func BenchmarkMemory(b *testing.B) {
	for _, s := range []frontier.Strategy{frontier.BreadthFirst{}, frontier.OPIC{}} {
		b.Run(s.Name(), func(b *testing.B) {
			var store frontier.MemoryStore
			const n = 5_000_000
			for p := range PageID(n) {
				store.Put(Entry{Page: p + 1, Site: SiteID(p%50_000 + 1)})
			}
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				f := must.Get(frontier.New(s, &store, nil))
				must.Get(f.Batch(0, frontier.BatchOptions{}))
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/page")
				runtime.KeepAlive(f)
			}
		})
	}
}

// BenchmarkPageByPage fetches all pages of a web one at a time, and finds ten links on each.
func BenchmarkPageByPage(b *testing.B) {
	for _, s := range []frontier.Strategy{frontier.BreadthFirst{}, frontier.LargerSites{}, frontier.OPIC{}} {
		b.Run(s.Name(), func(b *testing.B) {
			const n, sites, links = 200_000, 3000, 10
			for b.Loop() {
				var store frontier.MemoryStore
				store.Put(Entry{Page: 1, Site: 1})
				f := must.Get(frontier.New(s, &store, &frontier.Options{Step: 1}))
				rng := rand.New(rand.NewPCG(1, 2))
				last, done := PageID(1), 0
				for ; done < n; done++ {
					list, err := f.Batch(1, frontier.BatchOptions{Size: 1})
					if err != nil || len(list) != 1 {
						b.Fatal(list, err)
					}
					p := pages(list)
					store.Remove(p[0])
					f.Done(p)
					to := make([]PageID, links)
					for i := range to {
						if to[i] = 1 + PageID(rng.Uint64N(uint64(last))); i < 3 && last < n {
							last++
							to[i] = last
							x := rng.Float64()
							e := Entry{Page: last, Site: 1 + SiteID(x*x*sites)}
							store.Put(e)
							f.Add([]Entry{e})
						}
					}
					must.OK(b, f.Share(p[0], 1, to))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/page")
		})
	}
}
