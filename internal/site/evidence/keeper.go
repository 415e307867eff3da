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
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
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

	// Meta says that no bytes are sent in any case: then edited pages are not fetched
	// if they were public before, and rounds are slower.
	Meta bool

	Logger *slog.Logger

	stranger stranger
	book     book
	rounds   rounds
	todo     work
}

const atOnce = 4 // concurrent requests

func (k *Keeper) log() *slog.Logger { return cmp.Or(k.Logger, slog.New(slog.DiscardHandler)) }

func (k *Keeper) good() time.Duration {
	if k.For > 0 {
		return k.For
	}
	return 24 * time.Hour
}

// hurry bounds a wait.
func (k *Keeper) hurry(d time.Duration) time.Duration { return pause.AtMost(d, k.Hurry) }

// Moved says, before Open, that the site has moved to base from former ones: a page that was refused at one of them
// counts as refused at base, until it is fetched there. All other evidence begins anew.
func (k *Keeper) Moved(base string, former []string) {
	k.book.moved = func(page string) string {
		for _, was := range former {
			if rest, ok := strings.CutPrefix(page, was); ok {
				return base + rest
			}
		}
		return page
	}
}

// Open loads the notes of an earlier process from the journal.
func (k *Keeper) Open() error {
	k.stranger.open(k.Via)
	k.rounds.settled = make(chan struct{})
	k.todo.init()
	if err := k.book.open(k.Journal, k.Rate > 0); err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	return nil
}

// until returns until when bytes of a page may be sent to anybody, the zero time if they may not, and false if nothing is known of
// them. When returns when they were shown, by the record of their page.
func (k *Keeper) until(page string, when func(r *record) time.Time) (until time.Time, known bool) {
	if k.book.isMass() {
		return until, true
	}
	r := k.book.record(page)
	switch r.State {
	case stateRefused, stateSuspect, stateAltered:
		return until, true
	}
	if k.Trusted {
		return time.Now().Add(k.good()), true
	}
	if r.State != statePublic {
		return until, !r.Asked.IsZero()
	}
	until = when(&r).Add(k.good())
	return until, until.After(time.Now())
}

// Until returns until when the bytes of a page with digest d, its current ones or not, may be sent to anybody, the zero time if
// they may not, and false if nothing is known here: they were not fetched, or too long ago.
func (k *Keeper) Until(page string, d protocol.Digest) (until time.Time, known bool) {
	return k.until(page, func(r *record) time.Time { return r.when(d) })
}

// shown reports whether the bytes of a page with digest d, its current ones or
// not, may be sent to anybody.
func (k *Keeper) shown(page string, d protocol.Digest) bool {
	until, known := k.Until(page, d)
	return known && !until.IsZero()
}

// Given returns until when bytes of a page that were public once, as those in an archive,
// may be sent to anybody, whatever its current bytes are; the zero time if they may not.
func (k *Keeper) Given(page string) (until time.Time) {
	until, known := k.until(page, func(r *record) time.Time { return r.ShownAt })
	if !known {
		return time.Time{}
	}
	return until
}

// Changed says, before Run, what to call with each page whose evidence may have changed.
func (k *Keeper) Changed(tell func(page string)) { k.todo.changed = tell }

// Closed reports whether no bytes of any page may be sent, since many pages were refused at once.
func (k *Keeper) Closed() bool { return k.book.isMass() }

// Settle blocks until the first round is over and no decision of a person is
// pending, so that bytes may be sent, or until ctx ends.
func (k *Keeper) Settle(ctx context.Context) error {
	if k.Rate <= 0 {
		return ctx.Err()
	}
	select {
	case <-k.rounds.settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	for k.book.isMass() {
		if !pause.For(ctx, k.hurry(time.Second)) {
			return ctx.Err()
		}
	}
	return nil
}

// NoArchive reports whether the web server asks that no copy of a page be kept.
func (k *Keeper) NoArchive(page string) bool { return k.book.record(page).NoArchive }

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

// Status returns the current status.
func (k *Keeper) Status() Status {
	s, _ := k.book.now()
	s.Pages, s.Trusted, s.Asks = k.Journal.Len(), k.Trusted, k.Rate > 0
	s.Round, _ = k.rounds.now()
	return s
}

// errIdle is returned by Recheck if Rate is zero or less.
var errIdle = errors.New("anonymous fetches are off: --ask-rate is 0")

// Recheck starts a round that fetches all pages again, refused ones first. Evidence
// stays valid meanwhile.
func (k *Keeper) Recheck() error {
	if k.Rate <= 0 {
		return errIdle
	}
	k.rounds.anew()
	pause.Wake(k.todo.round)
	return nil
}

// Accept says that the refusal of many pages is intended: they are withdrawn, and so
// are all others that the next round finds refused.
func (k *Keeper) Accept() error {
	k.book.do(func() { k.book.mass.is, k.book.mass.meant = false, true })
	if err := k.Recheck(); err != nil {
		return err
	}
	return k.release()
}

// release turns all suspect pages into refused ones.
func (k *Keeper) release() error {
	list, err := k.book.release()
	for _, page := range list {
		k.todo.tell(page)
	}
	return err
}
