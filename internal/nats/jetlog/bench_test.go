package jetlog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// BenchmarkTell appends to a journal, and waits until the stream of one server, or of three, which sync every write, has it, and a copy of
// the journal too.
func BenchmarkTell(b *testing.B) {
	for _, servers := range []int{1, 3} {
		for _, n := range []int{1, protocol.MaxBatch} {
			b.Run(fmt.Sprintf("servers=%d/changes=%d", servers, n), func(b *testing.B) {
				c := newCluster(b, servers)
				s, j := c.stream(), c.site()
				told := c.tell(s, j)
				c.reaches(told, j.Head())
				copied := c.follow(s, func() *journal.Journal { return j })
				c.reaches(copied, j.Head())
				steps := make([]journal.Step, n)
				for i := 0; b.Loop(); i++ {
					for k := range steps {
						steps[k] = step(protocol.Update, fmt.Sprint("p", k), fmt.Sprint(i))
					}
					head := c.append(j, steps...)
					c.reaches(told, head)
					c.reaches(copied, head)
				}
				b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "changes/s")
			})
		}
	}
}

// BenchmarkShare edits pages of 10 kB, and waits until a door of another machine has delivered them all.
func BenchmarkShare(b *testing.B) {
	for _, n := range []int{1, protocol.MaxBatch} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newContentsSite(b, 1)
			c.share(c.sharer())
			c.deliver()
			c.soon(c.write("first.html", "text"), true)
			steps := make([]journal.Step, n)
			for i := 0; b.Loop(); i++ {
				c.set(func() {
					for k := range steps {
						path, text := fmt.Sprint("p", k), strings.Repeat(fmt.Sprintf("%09d.", i), 1000)
						c.files[urlOf(path)], steps[k] = text, step(protocol.Update, path, text)
					}
				})
				c.reaches(c.door, c.append(c.journal, steps...))
				for k := range steps {
					if item := &steps[k].Entry.Item; !c.delivers(item) {
						b.Fatal(item.URL, " is not delivered")
					}
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}
