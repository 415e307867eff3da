package journal_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// large returns a journal of n items that is whole.
func large(t testing.TB, n int) *journal.Journal {
	t.Helper()
	j := open(t, filepath.Join(t.TempDir(), "journal"), nil)
	var steps []journal.Step
	for i := range n {
		steps = append(steps, create(fmt.Sprintf("p%07d", i), "x"))
		if len(steps) == protocol.MaxBatch || i == n-1 {
			take(t, j, steps...)
			steps = steps[:0]
		}
	}
	endBaseline(t, j)
	return j
}

// With more than about ten thousand items, pages of the file are released during the transaction.
func TestLargeJournal(t *testing.T) {
	const n = 70_000
	j := large(t, n)
	check(t, "items", j.Len(), n)
	i := 0
	v := view(t, j)
	for e, err := range v.Entries() {
		if want := fmt.Sprintf("p%07d", i); err != nil || short(e.Item.URL) != want || string(e.Stamp) != "stamp "+want {
			t.Fatalf("entry %d: %+v %v", i, e, err)
		}
		i++
	}
	check(t, "entries", i, n)
	v.Close()
	start := j.Head()
	take(t, j, update("p0000000", "y"), remove("p0069999"))
	check(t, "changes", told(read(t, j, start)), "1 update p0000000, 2 delete p0069999")
}

// A Stored entry is still valid after the next call of Next.
func TestStoredEntriesOutliveTheNext(t *testing.T) {
	const n = 1000
	j := large(t, n)
	v := view(t, j)
	defer v.Close()
	r := v.StoredReader("", true, "")
	was, _, err := r.Next()
	must.OK(t, err)
	for i := range n {
		e, more, err := r.Next()
		got, bad := was.Entry()
		if want := fmt.Sprintf("p%07d", i); err != nil || bad != nil || more != (i < n-1) || short(got.Item.URL) != want || string(was.Stamp) != "stamp "+want {
			t.Fatalf("entry %d: %+v, %v, %v", i, got, err, bad)
		}
		was = e
	}
}

func benchmarkAppend(b *testing.B, each int) {
	j := large(b, 10_000)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		steps := make([]journal.Step, each)
		for i := range steps {
			n++
			steps[i] = update(fmt.Sprintf("p%07d", n*7919%10_000), fmt.Sprint(n))
		}
		take(b, j, steps...)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "changes/s")
}

func BenchmarkAppend1(b *testing.B)    { benchmarkAppend(b, 1) }
func BenchmarkAppend1000(b *testing.B) { benchmarkAppend(b, 1000) }

func benchmarkRead(b *testing.B, each int) {
	j := large(b, 10_000)
	start := j.Head()
	for k := range 10 {
		steps := make([]journal.Step, 1000)
		for i := range steps {
			steps[i] = update(fmt.Sprintf("p%07d", k*1000+i), "y")
		}
		take(b, j, steps...)
	}
	at, n := start, 0
	b.ReportAllocs()
	for b.Loop() {
		changes := must.Get(j.Read(context.Background(), at, each))
		n += len(changes)
		if at.Seq += uint64(len(changes)); at == j.Head() {
			at = start
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "changes/s")
}

func BenchmarkRead1(b *testing.B)    { benchmarkRead(b, 1) }
func BenchmarkRead1000(b *testing.B) { benchmarkRead(b, 1000) }

func BenchmarkEntries(b *testing.B) {
	j := large(b, 100_000)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		v := must.Get(j.View())
		for _, err := range v.Entries() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		v.Close()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}

func BenchmarkStored(b *testing.B) {
	j := large(b, 100_000)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		v := must.Get(j.View())
		for r := v.StoredReader("", true, ""); ; n++ {
			if _, more, err := r.Next(); err != nil || !more {
				break
			}
		}
		v.Close()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}
