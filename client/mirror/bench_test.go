package mirror_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/mirror"
	"github.com/parleyweb/parley/client/mirror/holding"
)

// BenchmarkFirstSync mirrors 5,000 pages of 8 kB.
func BenchmarkFirstSync(b *testing.B) {
	site := map[string]string{}
	for i := range 5000 {
		site[fmt.Sprintf("d%d/e%d/p%d.html", i%10, i%100, i)] = fmt.Sprint(i, strings.Repeat(" of the page", 8000/12))
	}
	for b.Loop() {
		s := serve(b, site)
		left := len(site)
		done := make(chan bool)
		c := newCopy(b, s, func(m *mirror.Mirror) {
			m.Notify = func(p holding.Settled) {
				if left--; p.Fresh && left == 0 {
					close(done)
				}
			}
		})
		start := time.Now()
		c.start()
		<-done
		b.ReportMetric(float64(len(site))/time.Since(start).Seconds(), "pages/s")
		if err := c.stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEdit is the time from a change that is told to the page in its place.
func BenchmarkEdit(b *testing.B) {
	s := serve(b, pages(1000))
	fresh := make(chan time.Time, 1000)
	c := newCopy(b, s, func(m *mirror.Mirror) {
		m.Notify = func(holding.Settled) { fresh <- time.Now() }
	})
	c.start()
	for range 1000 {
		<-fresh
	}
	var took []time.Duration
	i := 0
	for b.Loop() {
		start := time.Now()
		s.edit(fmt.Sprintf("d%d/p%d.html", i%1000%7, i%1000), fmt.Sprint("edit ", i))
		took = append(took, (<-fresh).Sub(start))
		i++
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	if err := c.stop(); err != nil {
		b.Fatal(err)
	}
}
