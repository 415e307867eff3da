package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// An Announcement says of one page what the program that makes it knows: a
// content management system, a build. It is the word of the site itself, and
// it can be said again: what is known already, and what is older than what is
// known, changes nothing.
type Announcement struct {
	URL  string `json:"url"`            // absolute, or relative to the base URL
	Gone bool   `json:"gone,omitempty"` // it is no longer offered

	// Modified is when the page, or its going, changed. Digest is that of the
	// bytes as served. One of them must be given, but for Gone.
	//
	// Without a digest the date alone tells what is news, to the millisecond.
	// Of two edits with one date the second is taken for the first, said again,
	// and counted as Unchanged; of a page and its going with one date the going
	// is taken to be the later. So a program whose dates are whole seconds gives
	// a digest, or the milliseconds, or says what it did within a second only
	// when that is over.
	//
	// Of a page that went, only a later date is news: one that comes back must
	// say when it did, not when it was written, or no date but its digest.
	// Without a date a page goes when that is taken in, or with the newest
	// date that was known of it if that is later: whatever is said in a later
	// call with a date up to then is taken for old news, even if it was done
	// after. So a program that may be late gives its goings a date.
	Modified time.Time       `json:"modified,omitzero"`
	Digest   protocol.Digest `json:"digest,omitzero"`

	Length    *int64          `json:"length,omitempty"` // bytes
	Type      string          `json:"type,omitempty"`   // media type
	Title     string          `json:"title,omitempty"`
	Language  string          `json:"language,omitempty"`
	Canonical string          `json:"canonical,omitempty"`
	Text      protocol.Digest `json:"text,omitzero"`
}

// Announced is what came of announcements.
type Announced struct {
	Cursor    protocol.Cursor `json:"cursor"` // durable: whoever reads up to it has been told
	Created   int             `json:"created"`
	Updated   int             `json:"updated"`
	Deleted   int             `json:"deleted"`
	Unchanged int             `json:"unchanged"` // known already, or older than what is known
	Refused   []Refused       `json:"refused,omitempty"`
}

// Refused is an announcement that was not taken in. Said again it will be
// refused again, unless the rules of the site change.
type Refused struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// ErrNotReady is wrapped by the error of [Publisher.Announce] while the site
// has not been looked at yet. Try again in a moment.
var ErrNotReady = errors.New("the first look at the site is not over")

// saidModified is when a page changed, as it was said: by a clock that is
// ahead of ours, perhaps, whose dates are taken in as ours. Zero is unknown.
func saidModified(e journal.Entry) time.Time {
	if said, ok := bytes.CutPrefix(e.Stamp, []byte(compare.AnnounceMark)); ok && len(said) > 8 {
		if ms := int64(binary.BigEndian.Uint64(said)); ms != 0 {
			return time.UnixMilli(ms)
		}
	}
	return e.Item.Modified
}

// Announce takes announcements in, at most protocol.MaxBatch of them, in one
// durable transaction; when it returns they have been told. What was announced
// stays offered until it is announced as gone, or forbidden by a rule,
// whatever the Inventory offers. If the Inventory offers it too, what that
// says counts from the next look on, and its going must be seen there.
//
// Announcements may come in any order, and more than once: an older Modified
// than that known of the page, and a digest that is known, change nothing; and
// nor does older news of a page that was announced as gone, as Modified of
// Announcement says. The last 100,000 goings or so are kept in the state for
// that. Announcements of one call are taken in the order in which they stand.
//
// What was announced is known from the state alone. When that is lost, the
// manifest keeps these pages published, and they are held until they are
// announced again: see [OpenJournal].
//
// It waits for a look that is going on. Before the first look of this process,
// and before the first description is whole, the error wraps ErrNotReady.
func (p *Publisher) Announce(ctx context.Context, list []Announcement) (Announced, error) {
	if len(list) > protocol.MaxBatch {
		return Announced{}, fmt.Errorf("announce: %d pages at once, more than %d: say them in parts", len(list), protocol.MaxBatch)
	}
	done, err := p.takeTurn(ctx)
	if err != nil {
		return Announced{}, fmt.Errorf("announce: wait for the present look: %w", err)
	}
	defer done()
	if !p.Ready() || !p.Journal.Whole() {
		return Announced{}, fmt.Errorf("announce: %w", ErrNotReady)
	}
	t := &taking{p: p, now: p.now(), state: make(map[string]known)}
	for _, a := range list {
		if err := t.take(a); err != nil {
			return Announced{}, fmt.Errorf("announce: %w", err)
		}
	}
	// A going that is noted and not taken in does no harm: the page is there
	// until it is said again. The other way round what is said late would
	// bring back what went.
	if err := p.goings.remember(p.Journal, t.went, t.now); err != nil {
		return Announced{}, fmt.Errorf("announce: %w", err)
	}
	was := p.Journal.Head()
	if len(t.steps) > 0 {
		if err := p.mark(); err != nil {
			return Announced{}, fmt.Errorf("announce: %w", err)
		}
		if _, err := p.Journal.Append(ctx, t.steps); err != nil {
			return Announced{}, fmt.Errorf("announce: %w", err)
		}
	}
	t.done.Cursor = p.Journal.Head()
	p.announced += t.more
	if t.old > 0 {
		p.log().Info("announced pages stay gone: their dates are no later than their going", "pages", t.old, "one", t.oldURL)
	}
	p.mu.Lock()
	p.status.Changes += int(t.done.Cursor.Seq - was.Seq)
	p.mu.Unlock()
	pause.Wake(p.stale)
	if len(t.dirty) > 0 {
		p.dirty(t.dirty)
	}
	return t.done, nil
}

// known is what is known of a URL while announcements are taken in.
type known struct {
	entry   journal.Entry
	present bool
	went    time.Time // up to when news of it are old, of a page that is absent
}

// A taking takes announcements in, one after another.
type taking struct {
	p     *Publisher
	now   time.Time
	state map[string]known // of URLs that have been looked up
	steps []journal.Step
	went  map[string]time.Time // to be remembered
	dirty []inventory.Scope    // to be looked at
	old   int                  // news of pages that had gone
	more  int                  // entries that are announced ones now, and were not
	done  Announced

	oldURL string // one of them
}

// take takes in one announcement. An error is one of the journal.
func (t *taking) take(a Announcement) error {
	url, reason := t.urlOf(a.URL)
	if reason == "" {
		reason = a.clean(url, t.now)
	}
	if reason != "" {
		t.refuse(a.URL, reason)
		return nil
	}
	k, ok := t.state[url]
	if !ok {
		var err error
		if k.entry, k.present, err = t.p.Journal.Get(url); err != nil {
			return err
		}
		if !k.present {
			if k.went, err = wentAt(t.p.Journal, url); err != nil {
				return err
			}
		}
	}
	switch was := compare.IsAnnounced(k.entry); {
	case a.Gone && k.present && !was && (!compare.IsInherited(k.entry) || k.entry.Held.IsZero()):
		// It would be there again after the next look.
		t.refuse(url, "the site's inventory offers it: it is gone once that does not")
		t.dirty = append(t.dirty, inventory.ScopeOf(url))
	case a.Gone:
		t.gone(url, a, &k)
	default:
		t.there(url, a, &k)
		if !was && compare.IsAnnounced(k.entry) {
			t.more++
		}
	}
	t.state[url] = k
	return nil
}

func (t *taking) refuse(url, reason string) {
	if len(url) > 200 {
		url = strings.ToValidUTF8(url[:200], "") + "..."
	}
	t.done.Refused = append(t.done.Refused, Refused{URL: url, Reason: reason})
}

// urlOf returns the URL that is announced, or why it cannot be.
func (t *taking) urlOf(ref string) (url, reason string) {
	base := ""
	if s := t.p.Snapshot; s != nil {
		base = s.Manifest.Base
	}
	url, err := protocol.CanonicalURL(base, ref)
	switch {
	case err != nil:
		return "", err.Error()
	case !strings.HasPrefix(url, base):
		return "", "it is not below " + base
	case !t.p.Inventory.Public(url):
		return "", "the site's rules do not let it be published: its name is not one of those included, or hidden, or robots.txt forbids it"
	}
	return url, ""
}

// clean brings what is announced of a page into the form in which it is told,
// or says why it cannot be.
func (a *Announcement) clean(url string, now time.Time) (reason string) {
	if !a.Modified.IsZero() {
		if _, ok := protocol.SaneModified(a.Modified, now); !ok {
			return "modified is before 1993, or more than a day from now"
		}
	} else if a.Digest.IsZero() && !a.Gone {
		return "neither modified nor digest is given: nobody could tell whether it changed"
	}
	if a.Length != nil && *a.Length < 0 {
		return "length is negative"
	}
	f := inventory.Features{Title: a.Title, Language: a.Language, Canonical: a.Canonical}
	f.Clean(url)
	a.Title, a.Language, a.Canonical, a.Type = f.Title, f.Language, f.Canonical, cleanType(a.Type)
	return ""
}

func (t *taking) gone(url string, a Announcement, k *known) {
	at, said := a.Modified.Truncate(time.Millisecond), saidModified(k.entry)
	dated := !a.Modified.IsZero()
	if !dated {
		at = clock.Later(t.now, said).Truncate(time.Millisecond)
	}
	switch {
	case !k.present:
		t.done.Unchanged++
		if !at.After(k.went) || !at.After(t.went[url]) {
			return
		}
	case dated && at.Before(said):
		t.done.Unchanged++
		return
	default:
		t.done.Deleted++
		if compare.IsAnnounced(k.entry) {
			t.more--
		}
		t.steps = append(t.steps, journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: url, Length: -1}}})
		*k = known{}
	}
	if dated {
		k.went = at // without a date, what stands after it is later
	}
	if t.went == nil {
		t.went = make(map[string]time.Time)
	}
	t.went[url] = at
}

// isOld reports whether an announcement of an absent page is older than its going.
func (t *taking) isOld(url string, a Announcement, k *known) bool {
	at := a.Modified.Truncate(time.Millisecond)
	switch {
	case a.Modified.IsZero():
		return false
	case !at.After(k.went):
		t.done.Unchanged++
		t.old, t.oldURL = t.old+1, url
		return true
	case !at.After(t.went[url]): // it went without a date: that was earlier
		t.went[url] = at.Add(-time.Millisecond)
	}
	return false
}

func (t *taking) there(url string, a Announcement, k *known) {
	stamp := a.stamp()
	o := inventory.Offer{URL: url, Modified: a.Modified, Length: -1, Type: a.Type, Title: a.Title, Digest: a.Digest, Stamp: stamp,
		Language: a.Language, Canonical: a.Canonical, Text: a.Text}
	if a.Length != nil {
		o.Length = *a.Length
	}
	if !k.present {
		if t.isOld(url, a, k) {
			return
		}
		k.entry, k.present = journal.Entry{Item: compare.ItemOf(o, t.now, true), Stamp: stamp}, true
		t.importance(&k.entry)
		t.steps = append(t.steps, journal.Step{Op: protocol.Create, Entry: k.entry})
		t.done.Created++
		return
	}
	was := k.entry
	switch news := compareNews(a, was); {
	case news < 0, news == 0 && was.Held.IsZero() && len(was.Stamp) > 0 && !compare.IsInherited(was):
		t.done.Unchanged++
		return
	case news == 0: // it vanished, or the state was lost, and now somebody says that it is there
		k.entry.Stamp, k.entry.Held = stamp, time.Time{}
		t.steps = append(t.steps, journal.Step{Entry: k.entry})
		t.done.Unchanged++
		return
	}
	it, _ := compare.ItemAfter(was.Item, o, t.now)
	if it.Title == "" {
		it.Title = was.Item.Title
	}
	if it.Type == "" {
		it.Type = was.Item.Type
	}
	if it.Language == "" {
		it.Language = was.Item.Language
	}
	if it.Equal(was.Item) {
		t.done.Unchanged++
		return
	}
	k.entry = journal.Entry{Item: it, Stamp: stamp, Other: clock.Later(was.Other, compare.Newest(was))}
	t.importance(&k.entry)
	t.steps = append(t.steps, journal.Step{Op: protocol.Update, Entry: k.entry, Significance: compare.Significance(was, k.entry)})
	t.done.Updated++
}

// compareNews returns 1 if an announcement says other than what is known, 0 if
// it says the same, and -1 if it is older than that.
func compareNews(a Announcement, was journal.Entry) int {
	age, said := 1, saidModified(was) // where one has no date, it is a matter of the digest
	if !a.Modified.IsZero() && !said.IsZero() {
		age = a.Modified.Truncate(time.Millisecond).Compare(said)
	}
	switch {
	case bytes.Equal(a.stamp(), was.Stamp), !a.Digest.IsZero() && a.Digest == was.Item.Digest:
		return 0
	case age == 0 && !a.Digest.IsZero():
		return 1 // twice within a second, as most dates are written
	}
	return age
}

func (t *taking) importance(e *journal.Entry) {
	if f := t.p.Importance; f != nil {
		e.Item.Importance = f(e.Item.URL)
	}
}

// stamp is what only an announcement that says the same has too.
func (a Announcement) stamp() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic("server: encode announcement: " + err.Error()) // plain values always encode
	}
	sum := sha256.Sum256(b)
	said := uint64(0)
	if !a.Modified.IsZero() {
		said = uint64(a.Modified.UnixMilli())
	}
	return append(binary.BigEndian.AppendUint64([]byte(compare.AnnounceMark), said), sum[:16]...)
}

// cleanType returns a media type without parameters, in lower case, and the
// empty string for what is none.
func cleanType(s string) string {
	t, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(t, "/") || len(t) > 127 {
		return ""
	}
	return t
}
