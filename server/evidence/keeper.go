// Package evidence finds out what a web server gives to anybody, so that
// nothing leaves by another door that it refuses: a password in front of a
// directory, a file that only root can read, a rule of .htaccess, are not seen
// on the disk.
//
// A page is public when a GET of it through the site's own base URL, without
// credentials, was answered with 200 and exactly the bytes that are held: for a
// day, for those bytes. 401, 403 and 451 withdraw the page: it is told as gone.
// A redirect, or other bytes that stay so, keep its bytes here. All else (404,
// 429, 5xx, no answer) says nothing: the page is told, and whoever wants its
// bytes asks the web server for them.
//
// What a [Keeper] wraps asks it: [Keeper.Watching] an inventory, so that what is
// refused is withdrawn, and of each new directory a page is asked for before any is told;
// [Keeper.Gate] the bytes of pages, whatever they are told by.
//
// Where many are refused that were public, it is rather a mistake than meant:
// no bytes leave, nothing is told as gone, and a person is asked (see Standing).
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

// A Keeper asks for the pages of a site, and keeps what the answers show, as
// notes in the site's journal. Open takes over what an earlier process has
// left; Run asks, until its context ends. Fields are not to be changed once
// Open has been called; the other methods may then be called by many
// goroutines at once.
type Keeper struct {
	Journal *server.Journal

	// Rate is how many pages a second are asked for, when all are asked for one
	// after the other. What was edited, or is new, is asked for at once.
	// Zero or less: nothing is asked for, and all is unknown.
	Rate float64

	// Via is a proxy that stands elsewhere, to be asked as a stranger is. Nil:
	// none is used, whatever the environment says.
	Via *url.URL

	// Trusted says that whatever stands in the docroot may be given out,
	// unless an answer has shown otherwise: bytes need no evidence.
	Trusted bool

	// For is how long it counts that bytes were shown. Zero means 24 h.
	For time.Duration

	// Hurry bounds every wait of the Keeper's own: until other bytes are at
	// rest, and until what is refused is asked for again. Zero: nothing does.
	Hurry time.Duration

	// Inside reports whether what answers at an address may know us by ours: its
	// 200 shows nothing of what others are given. Nil: what is not of the public Internet.
	Inside func(netip.Addr) bool

	// Meta says that no bytes are told, whatever is shown: then what was edited
	// is not asked for, if it was public before, and rounds take their time.
	Meta bool

	Logger *slog.Logger
	Now    func() time.Time

	http       fetch.Client
	settled    chan struct{} // closed after the first round
	settleOnce sync.Once
	news       chan inventory.Scope // what is to be looked at again; see Watching
	todo       work

	flying   sync.WaitGroup // questions of a round
	settling sync.Mutex     // held by whoever replaces a record

	mu      sync.Mutex
	unsaved map[string]record   // of records that are not in the journal yet
	refused map[string]struct{} // those that are withdrawn
	suspect map[string]struct{}
	public  int // pages that were shown, and are not refused
	sample  []string
	sampled int
	dirs    map[string]struct{} // prefixes of directories of which a page was told
	mass    bool                // a person is asked
	meant   bool                // a person has said so: what this round finds refused is withdrawn
	since   time.Time           // what was asked for before is to be asked for anew
	lately  int                 // withdrawn since counting
	count   time.Time
	inside  string // a page whose 200 shows nothing, since it came from here
	last    Round
	said    int // pages of which it was said that their bytes stay here
	silent  int // questions without an answer, one after the other
}

// noted begins the keys of notes.
const noted = "evidence/"

const (
	atOnce   = 4    // requests under way
	samples  = 2000 // public pages that are remembered to be asked whether many are refused
	massMore = 20   // refused pages: if there are more, and more than a 20th of those that were public, a person is asked
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

// Open takes over what an earlier process has left in the journal.
func (k *Keeper) Open() error {
	k.http, k.news = k.client(), make(chan inventory.Scope, 1000)
	k.settled = make(chan struct{})
	k.todo.init()
	k.unsaved, k.refused, k.suspect, k.dirs = make(map[string]record), make(map[string]struct{}), make(map[string]struct{}), make(map[string]struct{})
	present, err := k.present()
	if err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	err = k.Journal.EachNote(noted, func(key string, value []byte) error {
		page := key[len(noted):]
		r, err := parseRecord(value)
		if err != nil {
			return nil // of another version: it is asked for anew
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if _, is := present[maphash.String(seed, page)]; !is && r.State != stateRefused {
			if len(k.unsaved) < mostForgotten {
				k.unsaved[page] = record{} // there is no such page any more
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

// mostForgotten is how many records of pages that are gone are dropped at once.
const mostForgotten = 100_000

// present returns the hashes of the URLs that are told of, and remembers their directories.
func (k *Keeper) present() (map[uint64]struct{}, error) {
	all := make(map[uint64]struct{})
	v, err := k.Journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	last, whole := "", k.Journal.Whole() // else nothing was told yet
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

// forget drops what is kept of refused pages that are not there any more.
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

// sort counts a record in place of another. mu is held.
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
	// Of all that come each is as likely to be remembered.
	if k.sampled++; len(k.sample) < samples {
		k.sample = append(k.sample, page)
	} else if i := rand.IntN(k.sampled); i < samples {
		k.sample[i] = page
	}
}

// record returns what is kept of a page.
func (k *Keeper) record(page string) record {
	k.mu.Lock()
	r, ok := k.unsaved[page]
	k.mu.Unlock()
	if ok {
		return r
	}
	b, err := k.Journal.Note(noted + page)
	if err == nil && b != nil {
		r, err = parseRecord(b)
	}
	if err != nil {
		return record{} // unknown
	}
	return r
}

// mostUnsaved is how many records are written to the journal at once.
const mostUnsaved = 1000

// save writes what is not in the journal yet. No view of it may be open here.
func (k *Keeper) save() error {
	k.mu.Lock()
	some := maps.Clone(k.unsaved)
	k.mu.Unlock()
	for list := slices.Sorted(maps.Keys(some)); len(list) > 0; {
		n := min(len(list), mostUnsaved)
		notes := make(map[string][]byte, n)
		for _, page := range list[:n] {
			if r := some[page]; r.State == stateUnknown && r.Asked.IsZero() {
				notes[noted+page] = nil
			} else {
				notes[noted+page] = r.encode()
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

// put keeps a record in place of what was kept, and reports whether the page
// is to be looked at again, being withdrawn now, or no more.
func (k *Keeper) put(page string, was, is record) (look bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsaved[page] = is
	k.sort(page, was, is)
	return (was.State == stateRefused) != (is.State == stateRefused)
}

// withdrawn reports whether the web server refuses a page, so that it is not to be told of.
func (k *Keeper) withdrawn(page string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, is := k.refused[page]
	return is
}

// shown reports whether bytes of a page may be given to anybody: those of
// digest d, be they its present ones or not.
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

// Given reports whether bytes of a page that were shown once may still be given
// to anybody, whatever they are by now: those that stand in an archive.
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

// Settle blocks until a first round is over and no person is asked, so that
// bytes leave as far as they do, or until ctx ends.
func (k *Keeper) Settle(ctx context.Context) error {
	if k.Rate <= 0 {
		return ctx.Err()
	}
	select {
	case <-k.settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	for k.Standing().Mass {
		if !pause.For(ctx, k.hurry(time.Second)) {
			return ctx.Err()
		}
	}
	return nil
}

// NoArchive reports whether the web server asks that no copy of a page be kept.
func (k *Keeper) NoArchive(page string) bool { return k.record(page).NoArchive }

// isMass reports whether so many of what was public are refused that it is
// rather a mistake, more being expected to be. mu is held, or nobody else is there.
func (k *Keeper) isMass(more int) bool {
	n := len(k.suspect) + k.lately + more
	return n > massMore && n*massPart > k.public+len(k.suspect)+k.lately
}

// Standing is how a Keeper stands, for a person.
type Standing struct {
	Public  int `json:"public"`            // pages that were shown
	Refused int `json:"refused"`           // that are withdrawn
	Suspect int `json:"suspect,omitempty"` // that are refused, and were public: see Mass
	Pages   int `json:"pages"`             // of the site

	// Mass says that so many were refused at once that a person is asked. No
	// bytes leave, and nothing is told as gone, until they are given again, or
	// somebody has said that it is meant: see Accept.
	Mass bool `json:"mass,omitempty"`

	// Inside is a page whose answers come from a loopback or private address:
	// they show nothing of what others are given. Empty if there is none.
	Inside  string `json:"inside,omitempty"`
	Trusted bool   `json:"trusted,omitempty"`
	Asks    bool   `json:"asks"`

	Round Round `json:"round"` // the present or the last one
}

// String says it in words.
func (s Standing) String() string {
	text := "the web server is not asked what it gives to anybody"
	if s.Asks {
		text = fmt.Sprintf("%d of %d pages are given to anybody", s.Public, s.Pages)
	}
	if s.Refused > 0 {
		text += fmt.Sprintf(", %d more are refused and not told", s.Refused)
	}
	switch {
	case s.Mass:
		text += "; MANY ARE REFUSED AT ONCE: no bytes leave, nothing is told as gone"
	case s.Trusted:
		text += "; the docroot is trusted"
	case s.Inside != "":
		text += "; answers come from a loopback or private address and show nothing of others: no bytes leave without --ask-via or --trust-docroot"
	case !s.Asks:
		text += ": no bytes leave without --trust-docroot"
	}
	if s.Asks && !s.Round.Done {
		text += fmt.Sprintf("; a round is under way, %d asked", s.Round.Asked)
	}
	return text
}

// A Round is one walk over all pages, to ask for those whose evidence is old.
type Round struct {
	Began time.Time `json:"began"`
	Asked int       `json:"asked"`
	Done  bool      `json:"done"`
}

// Standing tells how it stands now.
func (k *Keeper) Standing() Standing {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Standing{Public: k.public, Refused: len(k.refused), Suspect: len(k.suspect), Pages: k.Journal.Len(), Mass: k.mass,
		Inside: k.inside, Trusted: k.Trusted, Asks: k.Rate > 0, Round: k.last}
}

// errIdle is returned by Recheck where nothing is asked for.
var errIdle = errors.New("nothing is asked for: --ask-rate is 0")

// Recheck has all pages asked for anew, and what was refused first. What was
// shown goes on to count meanwhile.
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

// Accept says that it is meant that many pages are refused: they are withdrawn,
// and so is whatever else a round now finds refused.
func (k *Keeper) Accept() error {
	k.mu.Lock()
	k.mass, k.meant = false, true
	k.mu.Unlock()
	if err := k.Recheck(); err != nil {
		return err
	}
	return k.release()
}

// release takes the pages that are suspect for what they are: refused.
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

// tell has a page's directory looked at. Where too much is to be, everything is.
func (k *Keeper) tell(page string) {
	select {
	case k.news <- inventory.ScopeOf(page):
	default: // whoever reads it finds it full, and looks at everything
	}
}
