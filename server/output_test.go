package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// A tally is an Output that records its writes.
type tally struct {
	name string

	mu     sync.Mutex
	fail   error
	stands string   // current content
	writes []string // head and number of pages
	order  *[]string
}

func (o *tally) String() string { return o.name }
func (o *tally) Own() []string  { return nil }

func (o *tally) Write(ctx context.Context, j *server.Journal) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.order != nil {
		*o.order = append(*o.order, o.name)
	}
	if o.fail != nil {
		return false, o.fail
	}
	v, err := j.View()
	if err != nil {
		return false, err
	}
	defer v.Close()
	s := fmt.Sprintf("%d with %d", v.Head().Seq, v.Len())
	for e, err := range v.Entries() {
		if err != nil {
			return false, err
		}
		if e.Item.Importance > 0 {
			s += fmt.Sprint(" ", e.Item.Importance)
		}
	}
	if s == o.stands {
		return false, nil
	}
	o.stands = s
	o.writes = append(o.writes, s)
	return true, nil
}

// lose removes the output, as rsync --delete does with files missing at the source.
func (o *tally) lose() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stands = ""
}

func (o *tally) setFail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = err
}

// written returns the writes since its last call.
func (o *tally) written() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := strings.Join(o.writes, ", ")
	o.writes = nil
	return s
}

func TestOutputs(t *testing.T) {
	w := newWorld(t)
	var order []string
	a, b, c := &tally{name: "a", order: &order}, &tally{name: "b", order: &order}, &tally{name: "c", order: &order}
	use := func() { w.pub.Outputs = []server.Output{a, b, c} }
	use()
	turn := func() (inventory.Report, error) { return w.pub.Turn(w.Context()) }
	want := func(what string, o *tally, want string) {
		t.Helper()
		if got := o.written(); got != want {
			t.Errorf("%s: %s wrote %q, want %q", what, o.name, got, want)
		}
	}
	w.fill(3)
	w.fail = errors.New("no root")
	if _, err := turn(); err == nil || len(order) != 0 {
		t.Errorf("%v, written without a scan: %q", err, order)
	}
	w.fail = nil
	must.Get(turn())
	if got := strings.Join(order, ""); got != "abc" {
		t.Errorf("written in the order %s", got)
	}
	want("first", a, "0 with 3")
	must.Get(turn())
	want("nothing changed", a, "")
	a.lose()
	must.Get(turn())
	want("the output was removed", a, "0 with 3")
	published := w.pub.Published()
	if published != w.journal.Head() || published.IsZero() {
		t.Errorf("published at %v, the head is %v", published, w.journal.Head())
	}
	w.write("p/000.html", "other")
	b.setFail(errors.New("disk full"))
	if _, err := turn(); err == nil || !strings.Contains(err.Error(), "write b: disk full") {
		t.Errorf("%v", err)
	}
	want("a change", a, "1 with 3")
	want("an output beside a failed one", c, "0 with 3, 1 with 3")
	st := w.pub.Status()
	if at := w.pub.Published(); at != published || st.Manifest != w.journal.Head() {
		t.Errorf("published at %v although b was not written, was %v", at, published)
	}
	for i := range st.Outputs {
		if current := &st.Outputs[i].CurrentAt; current.IsZero() {
			t.Errorf("%s was never current", st.Outputs[i].Name)
		} else {
			*current = time.Time{}
		}
	}
	if len(st.Outputs) != 3 || st.Outputs[0] != (server.OutputStatus{Name: "a", Writes: 3}) ||
		st.Outputs[1] != (server.OutputStatus{Name: "b", Writes: 1, Error: "write b: disk full"}) || !strings.Contains(st.Error, "disk full") {
		t.Errorf("%+v", st)
	}
	b.setFail(nil)
	must.Get(turn())
	want("retried", b, "0 with 3, 1 with 3")
	want("the others are not written again", a, "")
	if st := w.pub.Status(); st.Error != "" || st.Outputs[1].Error != "" {
		t.Errorf("%+v", st)
	}
	if at := w.pub.Published(); at != w.journal.Head() {
		t.Errorf("published at %v, the head is %v", at, w.journal.Head())
	}
	w.pub.Pages.Importance = func(string) protocol.Importance { return 5 }
	must.Get(turn())
	want("a new revision without a change", a, "1 with 3 5 5 5")
	w.restart()
	use()
	if at := w.pub.Published(); !at.IsZero() {
		t.Errorf("published is %v before the first scan of the process", at)
	}
	a.lose()
	must.Get(turn())
	want("another process", a, "1 with 3 5 5 5")
	if at := w.pub.Published(); at != w.journal.Head() {
		t.Errorf("published at %v, the head is %v", at, w.journal.Head())
	}
}

// Run writes outputs as it writes the manifest: at once after a quiet time, rarely while changes keep coming,
// again after a failure, and at the end.
func TestRunOutputs(t *testing.T) {
	out := &tally{name: "out"}
	running(t, func(w *world) {
		if got := out.written(); got != "0 with 2" {
			t.Errorf("at the beginning: %q", got)
		}
		time.Sleep(time.Minute)
		for i := range 100 {
			w.write("a.html", fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		if n := strings.Count(out.written(), "with"); n < 9 || n > 13 {
			t.Errorf("%d writes in 100 s", n)
		}
		time.Sleep(time.Minute)
		out.written()
		out.setFail(errors.New("disk full"))
		w.write("a.html", "one")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := w.pub.Status(); s.Error == "" || s.Manifest != s.Head || w.pub.Published().Seq != s.Head.Seq-1 {
			t.Errorf("%+v, published %v", s, w.pub.Published())
		}
		out.setFail(nil)
		time.Sleep(time.Minute)
		if got := out.written(); got != "101 with 2" {
			t.Errorf("after a failure: %q", got)
		}
		if s := w.pub.Status(); s.Error != "" || w.pub.Published() != s.Head {
			t.Errorf("%+v, published %v", s, w.pub.Published())
		}
		out.lose()
		time.Sleep(10 * time.Minute) // a regular scan
		synctest.Wait()
		if got := out.written(); got != "101 with 2" {
			t.Errorf("after the output was removed: %q", got)
		}
		w.write("a.html", "two")
		synctest.Wait()
		w.write("a.html", "three")
		synctest.Wait()
		w.atEnd = func() {
			if got := out.written(); got != "102 with 2, 103 with 2" {
				t.Errorf("at the end: %q", got)
			}
		}
	}, func(w *world) { w.pub.Outputs = []server.Output{out} })
}
