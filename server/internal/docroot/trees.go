package docroot

import (
	"cmp"
	"sync"
	"time"
)

// trees lends the docroot, open, to those who look at it and those who read.
type trees struct {
	docroot string

	mu      sync.Mutex // guards what follows
	present *tree      // of the look that is going on
	brief   *tree      // of those who read pages between looks; nil if there is none
	looks   int        // that have begun
}

// share lets Read use the tree of a look; release ends the look's own use.
func (ts *trees) share(t *tree) {
	ts.mu.Lock()
	t.users, ts.present, ts.brief = 1, t, nil
	ts.looks++
	ts.mu.Unlock()
}

// lend returns the tree of the present look, or the docroot as it is now.
func (ts *trees) lend() (*tree, error) {
	ts.mu.Lock()
	t := ts.present.used()
	ts.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return ts.open()
}

// used counts one more user, unless there is no tree.
func (t *tree) used() *tree {
	if t != nil {
		t.users++
	}
	return t
}

// open returns the docroot as it is now, for one user.
func (ts *trees) open() (*tree, error) {
	t, err := openTree(ts.docroot)
	if err != nil {
		return nil, err
	}
	t.users = 1
	return t, nil
}

// briefly is how long a docroot stays open for those who read many pages of it.
const briefly = 100 * time.Millisecond

// lendBriefly is lend for those who open one page each: between looks they
// share the docroot as it was briefly before, and never as it was before the
// last look, which what the journal says is from. The timer that ends it is
// owned by nobody, and need not be: it runs once, briefly after, and does
// no more than close the docroot.
func (ts *trees) lendBriefly() (*tree, error) {
	ts.mu.Lock()
	t, looks := cmp.Or(ts.present, ts.brief).used(), ts.looks
	ts.mu.Unlock()
	if t != nil {
		return t, nil
	}
	t, err := ts.open()
	if err != nil {
		return nil, err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.brief == nil && ts.looks == looks {
		t.users++
		ts.brief = t
		time.AfterFunc(briefly, func() { ts.forget(t) })
	}
	return t, nil
}

// forget ends what lendBriefly has begun.
func (ts *trees) forget(t *tree) {
	ts.mu.Lock()
	if ts.brief == t {
		ts.brief = nil
	}
	ts.mu.Unlock()
	ts.release(t)
}

// release gives a tree back; the last one closes it. A docroot is kept open
// no more than briefly between looks, so that its file system can be unmounted.
func (ts *trees) release(t *tree) {
	ts.mu.Lock()
	t.users--
	last := t.users == 0
	if last && ts.present == t {
		ts.present = nil
	}
	ts.mu.Unlock()
	if last {
		t.close()
	}
}
