package holding_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/client/mirror/holding"
)

func (r *rig) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// A file that somebody removed or cut short is fetched again after the next
// start, and no other.
func TestSpoiltFilesAreOwed(t *testing.T) {
	r := newRig(t)
	s := site("a", "A", "b", "B", "d/c", "C", "d/e", "E")
	r.apply(whole(1, create("a", "A"), create("b", "B"), create("d/c", "C"), create("d/e", "E")))
	r.pay(s, 10)
	os.RemoveAll(filepath.Join(r.copy(), "d"))
	r.write(filepath.Join(r.copy(), "a"), "")
	r.reopen()
	if n := r.col.Counts(); n.Owed != 3 || n.Held != 1 {
		t.Errorf("counts %+v", n)
	}
	r.pay(s, 10)
	r.wantFiles(map[string]string{"a": "A", "b": "B", "d/c": "C", "d/e": "E"})
	if r.gets[base+"b"] != 1 {
		t.Error("what was in order was fetched again")
	}
	r.reopen()
	if n := r.col.Counts(); n.Owed != 0 || n.Pages != 4 || n.Bytes != 4 {
		t.Errorf("counts %+v", n)
	}
}

// A state from before the last run does not know what that one did to the
// files. A page that is again what it was then would stay wrong for ever.
func TestStateFromBefore(t *testing.T) {
	for _, back := range []string{"state", "directory"} {
		r := newRig(t)
		s := site("a", "A", "b", "B", "c", "C")
		r.apply(whole(1, create("a", "A"), create("b", "B")))
		r.pay(s, 10)
		r.col.Close()
		old := r.read(r.state())
		if back == "directory" {
			if err := os.CopyFS(r.copy()+".old", os.DirFS(r.copy())); err != nil {
				t.Fatal(err)
			}
		}

		r.open()
		r.apply(told(2, create("a", "X")))
		r.apply(told(3, create("c", "C")))
		r.pay(site("a", "X", "c", "C"), 10)
		r.col.Close()
		if back == "state" {
			r.write(r.state(), old)
		} else {
			os.RemoveAll(r.copy())
			if err := os.Rename(r.copy()+".old", r.copy()); err != nil {
				t.Fatal(err)
			}
		}

		r.open()
		if back == "state" { // told again, and a is what it was; c is gone before it is fetched
			r.apply(told(2, create("a", "X")))
			r.apply(told(4, create("a", "A")))
		} else { // told on
			r.apply(told(4, create("a", "A"), remove("c")))
		}
		r.pay(s, 10)
		if err := r.col.Tidy(); err != nil {
			t.Fatal(err)
		}
		r.wantFiles(map[string]string{"a": "A", "b": "B"})
		if n := r.gets[base+"b"]; n != 1 {
			t.Errorf("%s: what was right was fetched %d times", back, n)
		}
	}
}

// What could not be written is told apart from what did not arrive.
func TestBodyThatCannotBeKept(t *testing.T) {
	r := newRig(t)
	b := r.body("A")
	if b.Err() != nil {
		t.Error(b.Err())
	}
	b.Discard()
	if _, err := b.Write([]byte("B")); err == nil || b.Err() == nil {
		t.Errorf("wrote what was discarded: %v, %v", err, b.Err())
	}
}

// A disk that loses some of the state gives an error that says what to do.
func TestDamagedState(t *testing.T) {
	r := newRig(t)
	step := whole(1)
	for i := range 500 {
		step.Changes = append(step.Changes, create(fmt.Sprintf("%04d", i), "A"))
	}
	r.apply(step)
	r.col.Close()
	good := r.read(r.state())
	junk := make([]byte, len(good))
	for i := range junk {
		junk[i] = byte(i*7 + i>>8)
	}
	for name, state := range map[string]string{
		"junk":      string(junk),
		"cut":       good[:len(good)/2],
		"junk end":  good[:4*4096] + string(junk[4*4096:]),
		"no head":   string(junk[:2*4096]) + good[2*4096:],
		"zero tail": good[:4*4096] + string(make([]byte, len(good)-4*4096)),
	} {
		path := filepath.Join(r.dir, name) // bbolt keeps its lock on what it has panicked over
		r.write(path, state)
		col, err := holding.Open(path, r.copy(), base, nil)
		if !errors.Is(err, holding.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			col.Close()
		}
	}
}
