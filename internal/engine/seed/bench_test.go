package seed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/seed"
)

// BenchmarkAdmit measures the links of a typical page, most of which are also on the page before.
func BenchmarkAdmit(b *testing.B) {
	var file strings.Builder
	file.WriteString("User-agent: *\n")
	for i := range 40 {
		fmt.Fprintf(&file, "Disallow: /private%d/\nDisallow: /*?sort=%d\n", i, i)
	}
	urls := make([]string, 100_000)
	for i := range urls {
		urls[i] = fmt.Sprintf("https://www.example.org/en/reference/library/container/page-%d.html", i)
	}
	for _, c := range []struct {
		name, robots string
		n            int
	}{{"met before", "", 1000}, {"new", "", len(urls)}, {"new, 80 rules", file.String(), len(urls)}} {
		b.Run(c.name, func(b *testing.B) {
			s := &seed.Seeder{}
			s.SetRobots("https://www.example.org", seed.RobotsAnswer{Status: 200, Body: []byte(c.robots)}, noon)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if v := s.Admit(seed.Ref{URL: urls[i], Depth: 3}); !v.OK {
					b.Fatal(v.Rule)
				}
				if i++; i == c.n {
					i = 0
				}
			}
		})
	}
	b.Run("relative", func(b *testing.B) {
		s := &seed.Seeder{}
		b.ReportAllocs()
		for b.Loop() {
			s.Admit(seed.Ref{URL: "../container/page.html", From: urls[0], Depth: 3})
		}
	})
}
