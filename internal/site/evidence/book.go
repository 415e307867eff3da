package evidence

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// A book has the records of all pages: in notes of the journal, and in memory what is not there yet, and what
// is needed often. Its methods may be called by many goroutines at once.
type book struct {
	journal  *server.Journal
	moved    func(page string) string // returns the present URL of a page; nil: the site has not moved
	updating sync.Mutex               // held from reading a record to replacing it

	mu      sync.Mutex        // guards the fields below
	unsaved map[string]record // records that are not in the journal yet
	refused map[string]bool   // the withdrawn pages
	suspect map[string]bool
	public  publicPages
	mass    massRefusal
	dirs    map[string]bool // prefixes of directories of which a page was announced
	inside  string          // a page whose 200 proves nothing, since it came from an inside address
}

// notePrefix is the prefix of the notes' keys.
const notePrefix = "evidence/"

// Withheld returns the notes of a journal which say that pages are not public, for another journal of the same site.
func Withheld(j *server.Journal) (map[string][]byte, error) {
	notes := make(map[string][]byte)
	err := j.EachNote(notePrefix, func(key string, value []byte) error {
		if r, err := parseRecord(value); err == nil && r.State != statePublic && r.State != stateUnknown {
			notes[key] = value
		}
		return nil
	})
	return notes, err
}

// open loads the records of pages in the journal, and the directories of its pages if new ones will be probed.
func (b *book) open(j *server.Journal, probes bool) error {
	b.journal = j
	b.unsaved, b.refused, b.suspect, b.dirs, b.public.gone = make(map[string]record), make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool)
	var present map[uint64]struct{}
	if probes || b.hasRecords() {
		var err error
		if present, err = b.present(); err != nil {
			return err
		}
	}
	moved := false
	err := j.EachNote(notePrefix, func(key string, value []byte) error {
		page := key[len(notePrefix):]
		r, err := parseRecord(value)
		if err != nil {
			return nil // of another version: the page is fetched again
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.moved != nil && b.moved(page) != page {
			moved, b.unsaved[page] = true, record{}
			if r.State != stateRefused {
				return nil
			}
			page, r = b.moved(page), record{State: stateRefused, Asked: r.Asked}
			b.unsaved[page] = r
		}
		if _, is := present[maphash.String(seed, page)]; !is && r.State != stateRefused {
			if len(b.unsaved) < mostForgotten {
				b.unsaved[page] = record{} // the page no longer exists
			}
			return nil
		}
		b.sort(page, record{}, r)
		return nil
	})
	mass := b.many(0)
	b.do(func() { b.mass.is = mass })
	if err == nil && moved { // now: the next process need not know the former base
		err = b.save()
	}
	return err
}

var seed = maphash.MakeSeed()

// mostForgotten bounds the records of deleted pages that are dropped at once.
const mostForgotten = 100_000

// hasRecords reports whether the journal has a record, or cannot be read.
func (b *book) hasRecords() bool {
	return b.journal.EachNote(notePrefix, func(string, []byte) error { return fs.SkipAll }) != nil
}

// present returns the hashes of the URLs in the journal, and remembers their directories.
func (b *book) present() (map[uint64]struct{}, error) {
	all := make(map[uint64]struct{})
	v, err := b.journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	last, whole := "", b.journal.Whole() // if it is not whole, nothing was announced yet
	for e, err := range v.Entries() {
		if err != nil {
			return nil, err
		}
		all[maphash.String(seed, e.Item.URL)] = struct{}{}
		if dir := inventory.ScopeOf(e.Item.URL).Prefix; whole && dir != last {
			b.dirs[dir], last = true, dir
		}
	}
	return all, nil
}

// record returns the record of a page.
func (b *book) record(page string) record {
	b.mu.Lock()
	r, ok := b.unsaved[page]
	b.mu.Unlock()
	if ok {
		return r
	}
	note, err := b.journal.Note(notePrefix + page)
	if err == nil && note != nil {
		r, err = parseRecord(note)
	}
	if err != nil {
		return record{} // unknown
	}
	return r
}

// update replaces the record of a page by what change makes of it. look says that the page must be scanned
// again, because it is now withdrawn, or no longer.
func (b *book) update(page string, change func(r *record)) (was, is record, look bool) {
	b.updating.Lock()
	defer b.updating.Unlock()
	was = b.record(page)
	is = was
	change(&is)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsaved[page] = is
	b.sort(page, was, is)
	return was, is, (was.State == stateRefused) != (is.State == stateRefused)
}

// sort updates the counts and sets for a record that replaces another. mu is held.
func (b *book) sort(page string, was, is record) {
	for _, c := range []struct {
		of    map[string]bool
		state state
	}{{b.refused, stateRefused}, {b.suspect, stateSuspect}} {
		if is.State == c.state {
			c.of[page] = true
		} else if was.State == c.state {
			delete(c.of, page)
		}
	}
	if was.State == statePublic {
		b.public.n--
	}
	if is.State == statePublic {
		if b.public.n++; was.State != statePublic {
			b.public.sample(page)
		}
	} else {
		delete(b.public.gone, page)
	}
}

// apply adds a page that a change deletes to the deleted ones, and removes a page that a change creates from them.
func (b *book) apply(c protocol.Change) {
	left := c.From
	if c.Op == protocol.Delete {
		left = c.Item.URL
	}
	b.updating.Lock()
	defer b.updating.Unlock()
	public := left != "" && b.record(left).State == statePublic
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.public.gone, c.Item.URL)
	if public {
		b.public.gone[left] = true
	}
}

// dropGone drops the evidence for deleted pages that is no longer valid.
func (b *book) dropGone(valid time.Duration) {
	for _, page := range b.pages(b.public.gone) {
		b.update(page, func(r *record) {
			if time.Since(r.ShownAt) > valid {
				*r = record{}
			}
		})
	}
}

// mostUnsaved bounds the records written to the journal in one transaction.
const mostUnsaved = 1000

// dropped returns 1 if a record says nothing, so that its note is removed, else 0.
func (r record) dropped() int {
	if r.State == stateUnknown && r.Asked.IsZero() {
		return 1
	}
	return 0
}

// save writes the unsaved records to the journal. The caller must have no view of it open.
func (b *book) save() error {
	b.mu.Lock()
	some := maps.Clone(b.unsaved)
	b.mu.Unlock()
	list := slices.Sorted(maps.Keys(some))
	slices.SortStableFunc(list, func(a, c string) int { // what is dropped comes last: a refusal of a page that has moved must not get lost
		return cmp.Compare(some[a].dropped(), some[c].dropped())
	})
	for list := range slices.Chunk(list, mostUnsaved) {
		notes := make(map[string][]byte, len(list))
		for _, page := range list {
			notes[notePrefix+page] = nil
			if r := some[page]; r.dropped() == 0 {
				notes[notePrefix+page] = r.encode()
			}
		}
		if err := b.journal.SetNotes(notes); err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
		b.mu.Lock()
		for _, page := range list {
			if b.unsaved[page] == some[page] {
				delete(b.unsaved, page)
			}
		}
		b.mu.Unlock()
	}
	return nil
}

// keep drops the records of refused pages but for those that exist.
func (b *book) keep(there map[string]bool) {
	for _, page := range b.pages(b.refused) {
		if !there[page] {
			b.update(page, func(r *record) { *r = record{} })
		}
	}
}

// pages returns the pages of a set of the book, sorted.
func (b *book) pages(set map[string]bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(set))
}

// release turns all suspect pages into refused ones, and returns them.
func (b *book) release() ([]string, error) {
	list := b.pages(b.suspect)
	for _, page := range list {
		b.update(page, func(r *record) {
			if r.State == stateSuspect {
				r.State = stateRefused
			}
		})
	}
	if err := b.save(); err != nil {
		return nil, err
	}
	b.do(func() { b.mass.lately += len(list) })
	return list, nil
}

// withdrawn reports whether the web server refuses a page, so that it must not be announced.
func (b *book) withdrawn(page string) bool { return b.has(b.refused, page) }

// has reports whether a set of the book has a member.
func (b *book) has(set map[string]bool, name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return set[name]
}

// do calls f with the lock held.
func (b *book) do(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// now returns what the book knows of a Status, and of a mass refusal.
func (b *book) now() (Status, massRefusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Status{Public: b.public.present(), Refused: len(b.refused), Suspect: len(b.suspect), Mass: b.mass.is, Inside: b.inside}, b.mass
}

// isMass reports whether a person must decide.
func (b *book) isMass() bool {
	_, m := b.now()
	return m.is
}

// doubtful reports whether public pages were refused.
func (b *book) doubtful() bool {
	s, m := b.now()
	return s.Suspect > 0 || m.lately > massMore
}

// publicPages are the pages in state public.
type publicPages struct {
	n    int
	gone map[string]bool // those deleted since open: archives may still have them

	sampled []string // for checking whether many are refused
	offered int
}

// present returns the number of those that exist.
func (p *publicPages) present() int { return p.n - len(p.gone) }

// samples bounds the sampled pages.
const samples = 2000

// sample offers a page. By reservoir sampling, each is equally likely to be sampled.
func (p *publicPages) sample(page string) {
	if p.offered++; len(p.sampled) < samples {
		p.sampled = append(p.sampled, page)
	} else if i := rand.IntN(p.offered); i < samples {
		p.sampled[i] = page
	}
}

// A massRefusal is the refusal of many pages at once. The lock of the book guards it.
type massRefusal struct {
	is     bool // a person must decide
	meant  bool // a person has accepted: pages that this round finds refused are withdrawn
	lately int  // pages withdrawn since
	since  time.Time
}

const (
	massMore = 20 // with more refused pages than this, and more than a 20th of those that were public, a person must decide
	massPart = 20
)

// lost counts a page that is no longer public. Those of longer ago than most count no more.
func (b *book) lost(now time.Time, most time.Duration) {
	b.do(func() {
		if m := &b.mass; now.Sub(m.since) > most || now.Before(m.since) {
			m.lately, m.since = 0, now
		}
		b.mass.lately++
	})
}

// many reports whether so many public pages are refused, counting more that are
// expected, that it is probably a mistake.
func (b *book) many(more int) bool {
	s, m := b.now()
	n := s.Suspect + m.lately + more
	return n > massMore && n*massPart > s.Public+s.Suspect+m.lately
}

// sampled returns a sample of the pages that were public, in random order, and their number.
func (b *book) sampled() (list []string, n int) {
	b.do(func() { list, n = slices.Clone(b.public.sampled), b.public.present()+len(b.suspect)+b.mass.lately })
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list, n
}
