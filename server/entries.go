package server

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// maxScopes is how many scopes are looked at one by one. Beyond it one look
// at everything is cheaper.
const maxScopes = 1000

// covering returns scopes in the order of their prefixes, each once and none
// that lies within another. No scopes at all means everything.
func covering(scopes []Scope) []Scope {
	s := slices.Clone(scopes)
	slices.SortFunc(s, func(a, b Scope) int {
		deepFirst := 0
		if a.Deep != b.Deep {
			deepFirst = 1
			if a.Deep {
				deepFirst = -1
			}
		}
		return cmp.Or(protocol.Compare(a.Prefix, b.Prefix), deepFirst)
	})
	if s = slices.Compact(s); len(s) > maxScopes {
		return nil
	}
	kept := s[:0]
	for _, x := range s {
		if !slices.ContainsFunc(kept, func(k Scope) bool {
			return k.Prefix == x.Prefix || k.Deep && strings.HasPrefix(x.Prefix, k.Prefix)
		}) {
			kept = append(kept, x)
		}
	}
	return kept
}

// entries walks what a journal holds within scopes, in order. It can be
// paused: a view that stays open keeps the journal from growing, so it is put
// away for every append, and opened again where it was.
type entries struct {
	j      *Journal
	scopes []Scope // as covering returns them
	end    bool    // nothing more to come

	last    string // the URL given last
	view    *journal.View
	sources sources
}

// next returns the next entry, or false after the last.
func (n *entries) next() (journal.Entry, bool, error) {
	if n.end {
		return journal.Entry{}, false, nil
	}
	if n.view == nil {
		if err := n.open(); err != nil {
			return journal.Entry{}, false, err
		}
	}
	for len(n.sources) > 0 {
		e := n.sources[0].entry
		if err := n.pull(0); err != nil {
			n.pause()
			return journal.Entry{}, false, err
		}
		if n.last == "" || protocol.Compare(e.Item.URL, n.last) > 0 {
			n.last = e.Item.URL
			return e, true, nil
		}
	}
	n.pause()
	n.end = true
	return journal.Entry{}, false, nil
}

// open opens a view and one source for all shallow scopes, whose ranges do
// not interleave, and one for each deep scope.
func (n *entries) open() (err error) {
	if n.view, err = n.j.View(); err != nil {
		return err
	}
	add := func(seq iter.Seq2[journal.Entry, error]) {
		next, stop := iter.Pull2(seq)
		n.sources = append(n.sources, &source{next: next, stop: stop})
	}
	var shallow []Scope
	for _, s := range n.scopes {
		if s.Deep {
			add(n.view.Under(s.Prefix, true))
		} else {
			shallow = append(shallow, s)
		}
	}
	switch {
	case len(n.scopes) == 0:
		add(n.view.Entries())
	case len(shallow) > 0:
		add(oneAfterAnother(n.view, shallow))
	}
	for i := len(n.sources) - 1; i >= 0; i-- { // backwards: pull may take sources[i] away
		if err := n.pull(i); err != nil {
			n.pause()
			return err
		}
	}
	heap.Init(&n.sources)
	return nil
}

func oneAfterAnother(v *journal.View, scopes []Scope) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for _, s := range scopes {
			for e, err := range v.Under(s.Prefix, false) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// pull moves source i on.
func (n *entries) pull(i int) error {
	s := n.sources[i]
	e, err, ok := s.next()
	switch {
	case !ok:
		s.stop()
		heap.Remove(&n.sources, i)
		return nil
	case err != nil:
		return err
	}
	s.entry = e
	heap.Fix(&n.sources, i)
	return nil
}

// pause puts the view away.
func (n *entries) pause() {
	for _, s := range n.sources {
		s.stop()
	}
	n.sources = nil
	if n.view != nil {
		n.view.Close()
		n.view = nil
	}
}

type source struct {
	next  func() (journal.Entry, error, bool)
	stop  func()
	entry journal.Entry
}

// sources is a heap by URL.
type sources []*source

func (s sources) Len() int { return len(s) }
func (s sources) Less(i, j int) bool {
	return protocol.Compare(s[i].entry.Item.URL, s[j].entry.Item.URL) < 0
}
func (s sources) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *sources) Push(x any)   { *s = append(*s, x.(*source)) }
func (s *sources) Pop() any {
	old := *s
	x := old[len(old)-1]
	*s = old[:len(old)-1]
	return x
}
