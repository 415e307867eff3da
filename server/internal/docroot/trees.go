package docroot

import (
	"cmp"
	"sync"
	"time"
)

// trees lends the open docroot to scans and readers.
type trees struct {
	docroot string

	mu      sync.Mutex // guards what follows
	present *tree      // of the current scan
	brief   *tree      // of readers of pages between scans, perhaps that of the last scan; nil if there is none
	looks   int        // number of scans begun
}

// share lets Read use the tree of a scan; end ends the scan's own use.
func (ts *trees) share(t *tree) {
	ts.mu.Lock()
	t.users, ts.present, ts.brief = 1, t, nil
	ts.looks++
	ts.mu.Unlock()
}

// lost is share for a scan that could not open the docroot.
func (ts *trees) lost() {
	ts.mu.Lock()
	ts.brief = nil
	ts.looks++
	ts.mu.Unlock()
}

// end ends a scan's own use of its tree. For a moment its last pages can still be read there, see lendBriefly.
func (ts *trees) end(t *tree) {
	ts.mu.Lock()
	last := ts.present == t
	if last {
		ts.present, ts.brief = nil, t
	}
	ts.mu.Unlock()
	if last {
		time.AfterFunc(briefly, func() { ts.forget(t) })
	} else {
		ts.release(t)
	}
}

// lend returns the tree of the current scan, or of one that has just ended, or else opens the docroot.
func (ts *trees) lend() (*tree, error) {
	ts.mu.Lock()
	t := cmp.Or(ts.present, ts.brief).used()
	ts.mu.Unlock()
	if t != nil {
		return t, nil
	}
	return ts.open()
}

// used counts one more user of a tree that is not nil.
func (t *tree) used() *tree {
	if t != nil {
		t.users++
	}
	return t
}

// open opens the docroot for one user.
func (ts *trees) open() (*tree, error) {
	t, err := openTree(ts.docroot)
	if err != nil {
		return nil, err
	}
	t.users = 1
	return t, nil
}

// briefly is how long a docroot stays open for readers of many pages.
const briefly = 100 * time.Millisecond

// lendBriefly is lend for callers that open one page each: between scans they share a docroot opened at most
// briefly ago, and never one from before the last scan, which the journal reflects. No goroutine owns its
// timer, and none need: it fires once, briefly after, and only closes the docroot.
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

// forget ends the sharing that lendBriefly began.
func (ts *trees) forget(t *tree) {
	ts.mu.Lock()
	if ts.brief == t {
		ts.brief = nil
	}
	ts.mu.Unlock()
	ts.release(t)
}

// release gives a tree back; the last user closes it. Between scans a docroot is kept open no longer than
// briefly, so that its file system can be unmounted.
func (ts *trees) release(t *tree) {
	ts.mu.Lock()
	t.users--
	last := t.users == 0
	ts.mu.Unlock()
	if last {
		t.close()
	}
}
