// Package evidence fetches a site's pages anonymously, so that no door sends a page
// that the web server refuses to strangers: a password in front of a directory, a
// file that only root can read, or a rule of .htaccess cannot be seen on the disk.
//
// A page is public if an anonymous GET through the site's own base URL was answered
// with 200 and exactly the bytes of the file: for a day, for those bytes. 401, 403 and
// 451 withdraw the page: it is announced as deleted. After a redirect, or other bytes
// that stay different, its bytes are not sent. Any other result (404, 429, 5xx, no
// response) proves nothing: the page is announced, and crawlers fetch its bytes from
// the web server.
//
// A [Keeper] wraps two things: [Keeper.Watching] wraps an inventory, which withdraws
// refused pages, and fetches a page of each new directory before any is announced;
// [Keeper.Gate] wraps the source of page bytes, for every door.
//
// If many pages that were public are refused at once, that is more likely a mistake
// than intended: no bytes are sent, nothing is announced as deleted, and a person must
// decide (see Status).
package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// A Keeper fetches the pages of a site, and stores the results as notes in the
// site's journal. Open loads the notes of an earlier process; Run fetches until its
// context ends. Do not change fields after Open has been called; the other methods
// may then be called by many goroutines at once.
type Keeper struct {
	Journal *server.Journal

	// Rate is the number of pages fetched per second during a round over all pages.
	// Edited and new pages are fetched at once. Zero or less: nothing is fetched,
	// and all pages are unknown.
	Rate float64

	// Via is a proxy outside the site's network, so that requests look like those of a
	// stranger. Nil: no proxy is used, whatever the environment says.
	Via *url.URL

	// Trusted says that the bytes of every file in the docroot may be sent, unless a
	// response has shown otherwise: bytes need no evidence.
	Trusted bool

	// For is how long evidence is valid. Zero means 24 h.
	For time.Duration

	// Hurry bounds all waits of the Keeper: for differing bytes to become stable, and
	// before refused pages are fetched again. Zero: no bound.
	Hurry time.Duration

	// Inside reports whether a server at an address may treat us as an insider, by our
	// own address: its 200 proves nothing about strangers. Nil: any address that is not
	// of the public Internet.
	Inside func(netip.Addr) bool

	// Meta says that no bytes are sent in any case: then edited pages are not fetched
	// if they were public before, and rounds are slower.
	Meta bool

	Logger *slog.Logger
	Now    func() time.Time

	http       fetch.Client
	settled    chan struct{} // closed after the first round
	settleOnce sync.Once
	news       chan inventory.Scope // scopes to scan again; see Watching
	todo       work

	flying   sync.WaitGroup // requests of a round in flight
	settling sync.Mutex     // held while a record is replaced

	mu      sync.Mutex
	unsaved map[string]record   // records that are not in the journal yet
	refused map[string]struct{} // the withdrawn pages
	suspect map[string]struct{}
	public  int // pages in state public
	sample  []string
	sampled int
	dirs    map[string]struct{} // prefixes of directories of which a page was announced
	mass    bool                // a person must decide
	meant   bool                // a person has accepted: pages that this round finds refused are withdrawn
	since   time.Time           // pages fetched before this are due again
	lately  int                 // withdrawn since count
	count   time.Time
	inside  string // a page whose 200 proves nothing, since it came from an inside address
	last    Round
	said    int // pages logged as withheld
	silent  int // requests without a response, in a row
}

// notePrefix is the prefix of the notes' keys.
const notePrefix = "evidence/"

const (
	atOnce   = 4    // concurrent requests
	samples  = 2000 // public pages remembered for checking whether many are refused
	massMore = 20   // with more refused pages than this, and more than a 20th of those that were public, a person must decide
	massPart = 20
)

func (k *Keeper) now() time.Time { return clock.Now(k.Now) }

func (k *Keeper) log() *slog.Logger { return cmp.Or(k.Logger, slog.New(slog.DiscardHandler)) }

func (k *Keeper) good() time.Duration {
	if k.For > 0 {
		return k.For
	}
	return 24 * time.Hour
}

// hurry bounds a wait.
func (k *Keeper) hurry(d time.Duration) time.Duration { return pause.AtMost(d, k.Hurry) }

// Open loads the notes of an earlier process from the journal.
func (k *Keeper) Open() error {
	k.http, k.news = k.client(), make(chan inventory.Scope, 1000)
	k.settled = make(chan struct{})
	k.todo.init()
	k.unsaved, k.refused, k.suspect, k.dirs = make(map[string]record), make(map[string]struct{}), make(map[string]struct{}), make(map[string]struct{})
	present, err := k.present()
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	err = k.Journal.EachNote(notePrefix, func(key string, value []byte) error {
		page := key[len(notePrefix):]
		r, err := parseRecord(value)
		if err != nil {
			return nil // of another version: the page is fetched again
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if _, is := present[maphash.String(seed, page)]; !is && r.State != stateRefused {
			if len(k.unsaved) < mostForgotten {
				k.unsaved[page] = record{} // the page no longer exists
			}
			return nil
		}
		k.sort(page, record{}, r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	k.mass = k.isMass(0)
	return nil
}

var seed = maphash.MakeSeed()

// mostForgotten bounds the records of deleted pages that are dropped at once.
const mostForgotten = 100_000

// present returns the hashes of the URLs in the journal, and remembers their directories.
func (k *Keeper) present() (map[uint64]struct{}, error) {
	all := make(map[uint64]struct{})
	v, err := k.Journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	last, whole := "", k.Journal.Whole() // if it is not whole, nothing was announced yet
	for e, err := range v.Entries() {
		if err != nil {
			return nil, err
		}
		all[maphash.String(seed, e.Item.URL)] = struct{}{}
		if dir := inventory.ScopeOf(e.Item.URL).Prefix; whole && dir != last {
			k.dirs[dir], last = struct{}{}, dir
		}
	}
	return all, nil
}

// forget drops the records of refused pages that no longer exist.
func (k *Keeper) forget(there map[string]struct{}) {
	k.mu.Lock()
	var gone []string
	for page := range k.refused {
		if _, is := there[page]; !is {
			gone = append(gone, page)
		}
	}
	k.mu.Unlock()
	for _, page := range gone {
		k.settling.Lock()
		k.put(page, k.record(page), record{})
		k.settling.Unlock()
	}
}

// sort updates the counts and sets for a record that replaces another. mu is held.
func (k *Keeper) sort(page string, was, is record) {
	for _, c := range []struct {
		of    map[string]struct{}
		state state
	}{{k.refused, stateRefused}, {k.suspect, stateSuspect}} {
		if is.State == c.state {
			c.of[page] = struct{}{}
		} else if was.State == c.state {
			delete(c.of, page)
		}
	}
	if was.State == statePublic {
		k.public--
	}
	if is.State != statePublic {
		return
	}
	k.public++
	if was.State == statePublic {
		return
	}
	// Reservoir sampling: each page is equally likely to be in the sample.
	if k.sampled++; len(k.sample) < samples {
		k.sample = append(k.sample, page)
	} else if i := rand.IntN(k.sampled); i < samples {
		k.sample[i] = page
	}
}

// record returns the record of a page.
func (k *Keeper) record(page string) record {
	k.mu.Lock()
	r, ok := k.unsaved[page]
	k.mu.Unlock()
	if ok {
		return r
	}
	b, err := k.Journal.Note(notePrefix + page)
	if err == nil && b != nil {
		r, err = parseRecord(b)
	}
	if err != nil {
		return record{} // unknown
	}
	return r
}

// mostUnsaved bounds the records written to the journal in one transaction.
const mostUnsaved = 1000

// save writes the unsaved records to the journal. The caller must have no view of it open.
func (k *Keeper) save() error {
	k.mu.Lock()
	some := maps.Clone(k.unsaved)
	k.mu.Unlock()
	for list := slices.Sorted(maps.Keys(some)); len(list) > 0; {
		n := min(len(list), mostUnsaved)
		notes := make(map[string][]byte, n)
		for _, page := range list[:n] {
			if r := some[page]; r.State == stateUnknown && r.Asked.IsZero() {
				notes[notePrefix+page] = nil
			} else {
				notes[notePrefix+page] = r.encode()
			}
		}
		if err := k.Journal.SetNotes(notes); err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
		k.mu.Lock()
		for _, page := range list[:n] {
			if k.unsaved[page] == some[page] {
				delete(k.unsaved, page)
			}
		}
		k.mu.Unlock()
		list = list[n:]
	}
	return nil
}

// put replaces the record of a page, and reports whether the page must be scanned
// again because it is now withdrawn, or no longer.
func (k *Keeper) put(page string, was, is record) (look bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsaved[page] = is
	k.sort(page, was, is)
	return (was.State == stateRefused) != (is.State == stateRefused)
}

// withdrawn reports whether the web server refuses a page, so that it must not be announced.
func (k *Keeper) withdrawn(page string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, is := k.refused[page]
	return is
}

// shown reports whether the bytes of a page with digest d, its current ones or
// not, may be sent to anybody.
func (k *Keeper) shown(page string, d protocol.Digest) bool {
	k.mu.Lock()
	mass := k.mass
	k.mu.Unlock()
	if mass {
		return false
	}
	r := k.record(page)
	switch r.State {
	case stateRefused, stateSuspect, stateAltered:
		return false
	}
	return k.Trusted || r.State == statePublic && r.has(d, k.now().Add(-k.good()))
}

// Given reports whether bytes of a page that were public once, as those in an archive,
// may still be sent to anybody, whatever its current bytes are.
func (k *Keeper) Given(page string) bool {
	k.mu.Lock()
	mass := k.mass
	k.mu.Unlock()
	if mass {
		return false
	}
	r := k.record(page)
	switch r.State {
	case stateRefused, stateSuspect, stateAltered:
		return false
	}
	return k.Trusted || r.State == statePublic && r.ShownAt.After(k.now().Add(-k.good()))
}

// Settle blocks until the first round is over and no decision of a person is
// pending, so that bytes may be sent, or until ctx ends.
func (k *Keeper) Settle(ctx context.Context) error {
	if k.Rate <= 0 {
		return ctx.Err()
	}
	select {
	case <-k.settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	for k.Status().Mass {
		if !pause.For(ctx, k.hurry(time.Second)) {
			return ctx.Err()
		}
	}
	return nil
}

// NoArchive reports whether the web server asks that no copy of a page be kept.
func (k *Keeper) NoArchive(page string) bool { return k.record(page).NoArchive }

// isMass reports whether so many public pages are refused, counting more that are
// expected, that it is probably a mistake. The caller holds mu, or is the only user.
func (k *Keeper) isMass(more int) bool {
	n := len(k.suspect) + k.lately + more
	return n > massMore && n*massPart > k.public+len(k.suspect)+k.lately
}

// Status is the status of a Keeper, for people.
type Status struct {
	Public  int `json:"public"`            // pages shown to be public
	Refused int `json:"refused"`           // withdrawn pages
	Suspect int `json:"suspect,omitempty"` // refused pages that were public: see Mass
	Pages   int `json:"pages"`             // of the site

	// Mass says that so many pages were refused at once that a person must decide. No
	// bytes are sent, and nothing is announced as deleted, until the pages are served
	// again, or a person has accepted it: see Accept.
	Mass bool `json:"mass,omitempty"`

	// Inside is a page whose responses come from a loopback or private address:
	// they prove nothing about strangers. Empty if there is none.
	Inside  string `json:"inside,omitempty"`
	Trusted bool   `json:"trusted,omitempty"`
	Asks    bool   `json:"asks"`

	Round Round `json:"round"` // the current or the last one
}

// String returns the status in words.
func (s Status) String() string {
	text := "the web server is not checked by anonymous fetches"
	if s.Asks {
		text = fmt.Sprintf("%d of %d pages are served to anonymous clients", s.Public, s.Pages)
	}
	if s.Refused > 0 {
		text += fmt.Sprintf(", %d more are refused and not published", s.Refused)
	}
	switch {
	case s.Mass:
		text += "; MANY ARE REFUSED AT ONCE: no page bytes are delivered, no deletions are reported"
	case s.Trusted:
		text += "; the docroot is trusted"
	case s.Inside != "":
		text += "; responses come from a loopback or private address and prove nothing about other clients: no page bytes are delivered without --ask-via or --trust-docroot"
	case !s.Asks:
		text += ": no page bytes are delivered without --trust-docroot"
	}
	if s.Asks && !s.Round.Done {
		text += fmt.Sprintf("; a round is in progress, %d fetched", s.Round.Asked)
	}
	return text
}

// A Round is one walk over all pages that fetches those whose evidence is old.
type Round struct {
	Began time.Time `json:"began"`
	Asked int       `json:"asked"`
	Done  bool      `json:"done"`
}

// Status returns the current status.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Status{Public: k.public, Refused: len(k.refused), Suspect: len(k.suspect), Pages: k.Journal.Len(), Mass: k.mass,
		Inside: k.inside, Trusted: k.Trusted, Asks: k.Rate > 0, Round: k.last}
}

// errIdle is returned by Recheck if Rate is zero or less.
var errIdle = errors.New("anonymous fetches are off: --ask-rate is 0")

// Recheck starts a round that fetches all pages again, refused ones first. Evidence
// stays valid meanwhile.
func (k *Keeper) Recheck() error {
	if k.Rate <= 0 {
		return errIdle
	}
	k.mu.Lock()
	k.since = k.now()
	k.mu.Unlock()
	k.todo.anew()
	return nil
}

// Accept says that the refusal of many pages is intended: they are withdrawn, and so
// are all others that the next round finds refused.
func (k *Keeper) Accept() error {
	k.mu.Lock()
	k.mass, k.meant = false, true
	k.mu.Unlock()
	if err := k.Recheck(); err != nil {
		return err
	}
	return k.release()
}

// release turns all suspect pages into refused ones.
func (k *Keeper) release() error {
	k.mu.Lock()
	list := slices.Sorted(maps.Keys(k.suspect))
	k.mu.Unlock()
	for _, page := range list {
		k.settling.Lock()
		if was := k.record(page); was.State == stateSuspect {
			is := was
			is.State = stateRefused
			k.put(page, was, is)
		}
		k.settling.Unlock()
	}
	if err := k.save(); err != nil {
		return err
	}
	k.mu.Lock()
	k.lately += len(list)
	k.mu.Unlock()
	for _, page := range list {
		k.tell(page)
	}
	return nil
}

// tell requests a scan of a page's directory, or of everything if too many are queued.
func (k *Keeper) tell(page string) {
	select {
	case k.news <- inventory.ScopeOf(page):
	default: // the reader finds the queue full, and scans everything
	}
}
