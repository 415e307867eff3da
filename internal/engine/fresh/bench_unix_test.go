//go:build unix

package fresh_test

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/fresh"
)

// Multiply by fifty for a million pages. The time is CPU time, so that other load on the
// machine does not count.
func BenchmarkPlan(b *testing.B) {
	pages := visitedPages(20_000, rand.New(rand.NewPCG(23, 24)))
	told := &fresh.Site{Tells: true}
	for range 50 {
		told.Signal.Judged(true)
		told.Signal.Found(true)
	}
	for _, c := range []struct {
		name     string
		policy   fresh.Priced
		site     *fresh.Site
		manifest bool
	}{
		{"polls", fresh.Priced{}, nil, false},
		{"bytes", fresh.Priced{Costs: fresh.Bytes()}, nil, false},
		{"freshness", fresh.Priced{Objective: fresh.Objective{Fresh: 1}}, nil, false},
		{"notices", fresh.Priced{}, told, false},
		{"manifests", fresh.Priced{}, nil, true}, // of 100 pages each
	} {
		for _, p := range pages {
			p.Site = c.site
		}
		b.Run(c.name, func(b *testing.B) {
			before, n := cpu(), 0
			b.ReportAllocs()
			for b.Loop() {
				pl := fresh.NewPlanner(c.policy, 2000)
				if c.manifest {
					for i := 0; i < len(pages); i += 100 {
						site := pl.Site(fresh.SiteTerms{Manifest: true})
						for _, p := range pages[i : i+100] {
							site.Add(p)
						}
						site.Close()
					}
				} else {
					for _, p := range pages {
						pl.Add(p)
					}
				}
				pl.Plan()
				n += len(pages)
			}
			b.ReportMetric(float64(cpu()-before)/float64(n), "cpu-ns/page")
		})
	}
}

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
