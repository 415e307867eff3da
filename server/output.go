package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An Output is a file or files written from a journal besides the manifest: a sitemap,
// a feed, an include for the web server. Package internal/site/static has them.
type Output interface {
	// String is its name in Status and in errors.
	String() string

	// Own returns the files that it writes and that a site must not publish as pages, for
	// Files.Own of a [Site].
	Own() []string

	// Write brings the output up to the journal, and reports whether it wrote. It
	// does not rewrite an output that is up to date, even if another process wrote it,
	// and never leaves a torn file. A Publisher calls it after every scan, whether or
	// not the journal has changed: another program may have removed the output from the
	// docroot. So it must be cheap if there is nothing to do; and what it writes in a
	// docroot causes another scan.
	Write(ctx context.Context, j *Journal) (wrote bool, err error)
}

// OutputStatus is the state of an Output.
type OutputStatus struct {
	Name   string `json:"name"`
	Writes int    `json:"writes"`          // by this process
	Error  string `json:"error,omitempty"` // why the last write failed; empty if it did not

	// CurrentAt is when this process last wrote it, or found it up to date; zero if never.
	CurrentAt time.Time `json:"current_at,omitzero"`
}

// outputStates is what a Publisher knows about its Outputs. Any goroutine may call its methods.
type outputStates struct {
	scans   atomic.Uint64 // that succeeded
	writing sync.Mutex    // held while the outputs are written

	mu   sync.Mutex // guards list
	list []outputState
}

// outputState is what a Publisher knows about one of its Outputs.
type outputState struct {
	at     uint64 // what now returned before the last write; zero if this process has not written it
	writes int
	err    error

	current time.Time // see OutputStatus
}

// now returns a number that grows whenever the outputs need another Write: when the journal changes, and when a
// scan has succeeded, after which an output may be missing from the docroot.
func (s *outputStates) now(j *Journal) uint64 { return 1 + j.Revision() + s.scans.Load() }

// write writes every output that is behind the journal, in order.
func (s *outputStates) write(ctx context.Context, outputs []Output, j *Journal) (wrote bool, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !j.Whole() {
		return false, nil
	}
	var errs []error
	for i, o := range outputs {
		at := s.now(j) // before the write: a change during the write makes the output stale
		s.mu.Lock()
		s.list = append(s.list, make([]outputState, len(outputs)-len(s.list))...)
		x := s.list[i]
		s.mu.Unlock()
		if x.at == at {
			continue
		}
		var did bool
		if did, x.err = o.Write(ctx, j); x.err != nil {
			x.err = fmt.Errorf("write %s: %w", o, x.err)
			errs = append(errs, x.err)
		} else {
			x.at, x.current = at, time.Now()
		}
		if did {
			wrote = true
			x.writes++
		}
		s.mu.Lock()
		s.list[i] = x
		s.mu.Unlock()
	}
	return wrote, errors.Join(errs...)
}

// areWritten reports whether no output needs another Write.
func (s *outputStates) areWritten(outputs []Output, j *Journal) bool {
	at := s.now(j)
	s.mu.Lock()
	defer s.mu.Unlock()
	stale := func(x outputState) bool { return x.at != at }
	return !j.Whole() || len(s.list) == len(outputs) && !slices.ContainsFunc(s.list, stale)
}

// status describes the outputs.
func (s *outputStates) status(outputs []Output) (list []OutputStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range outputs {
		st := OutputStatus{Name: o.String()}
		if i < len(s.list) {
			st.Writes, st.CurrentAt = s.list[i].writes, s.list[i].current
			if err := s.list[i].err; err != nil {
				st.Error = err.Error()
			}
		}
		list = append(list, st)
	}
	return list
}
