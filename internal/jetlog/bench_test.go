package jetlog_test

import (
	"fmt"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// BenchmarkTell appends to a journal, and waits until the stream of one server, which syncs every write, has it, and a copy of
// the journal too.
func BenchmarkTell(b *testing.B) {
	for _, n := range []int{1, protocol.MaxBatch} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newCluster(b, 1)
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
