package compare

import (
	"container/heap"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// entries walks a journal's entries within scopes, in order. It can be paused: an open view keeps the journal
// from growing, so it is closed for every append, and opened again at the same place.
type entries struct {
	j      *journal.Journal
	scopes []inventory.Scope // as inventory.Covering returns them
	end    bool              // no more entries

	last    journal.Stored // the last one returned
	view    *journal.View
	sources sources
}

// next returns the next entry, or false after the last.
func (n *entries) next() (journal.Stored, bool, error) {
	if n.end {
		return journal.Stored{}, false, nil
	}
	if n.view == nil {
		if err := n.open(); err != nil {
			n.pause()
			return journal.Stored{}, false, err
		}
	}
	if len(n.sources) == 0 {
		n.pause()
		n.end = true
		return journal.Stored{}, false, nil
	}
	s := n.sources[0]
	e := s.entry
	more, err := s.next()
	switch {
	case err != nil:
		n.pause()
		return journal.Stored{}, false, err
	case !more:
		heap.Pop(&n.sources)
	case len(n.sources) > 1:
		heap.Fix(&n.sources, 0)
	}
	n.last = e
	return e, true, nil
}

// open opens a view, with one source for all pages and shallow scopes, whose ranges do not interleave, and one for
// each deep scope.
func (n *entries) open() (err error) {
	if n.view, err = n.j.View(); err != nil {
		return err
	}
	add := func(readers ...*journal.StoredReader) error {
		s := &source{readers: readers}
		more, err := s.next()
		if more {
			n.sources = append(n.sources, s)
		}
		return err
	}
	last := string(n.last.URL)
	var shallow []*journal.StoredReader
	for _, s := range n.scopes {
		switch {
		case s.Page != "":
			if last == "" || protocol.Compare(s.Page, last) > 0 {
				shallow = append(shallow, n.view.Page(s.Page))
			}
		case s.Deep:
			if err := add(n.view.StoredReader(s.Prefix, true, last)); err != nil {
				return err
			}
		default:
			shallow = append(shallow, n.view.StoredReader(s.Prefix, false, last))
		}
	}
	if len(n.scopes) == 0 {
		err = add(n.view.StoredReader("", true, last))
	} else {
		err = add(shallow...)
	}
	heap.Init(&n.sources)
	return err
}

// pause closes the view.
func (n *entries) pause() {
	n.sources = nil
	if n.view != nil {
		n.view.Close()
		n.view = nil
	}
}

// A source yields the entries of several readers, one reader after the other.
type source struct {
	readers []*journal.StoredReader
	entry   journal.Stored // the next one
}

// next moves to the next entry, and returns false after the last.
func (s *source) next() (more bool, err error) {
	for len(s.readers) > 0 {
		if s.entry, more, err = s.readers[0].Next(); more || err != nil {
			return more, err
		}
		s.readers = s.readers[1:]
	}
	return false, nil
}

// sources is a heap by URL.
type sources []*source

func (s sources) Len() int { return len(s) }
func (s sources) Less(i, j int) bool {
	return protocol.Compare(string(s[i].entry.URL), string(s[j].entry.URL)) < 0
}
func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *sources) Push(x any)   { *s = append(*s, x.(*source)) }
func (s *sources) Pop() any {
	old := *s
	x := old[len(old)-1]
	*s = old[:len(old)-1]
	return x
}
