package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/compare"
	"github.com/parleyweb/parley/server/inventory"
)

// announcedModified returns the announced modification time of an entry. The announcer's clock may
// be ahead of this one, so Item.Modified may be earlier. Zero means unknown.
func announcedModified(e journal.Entry) time.Time {
	if said, ok := bytes.CutPrefix(e.Stamp, []byte(compare.AnnounceMark)); ok && len(said) > 8 {
		if ms := int64(binary.BigEndian.Uint64(said)); ms != 0 {
			return time.UnixMilli(ms)
		}
	}
	return e.Item.Modified
}

// Announce accepts announcements, at most protocol.MaxBatch of them, in one
// durable transaction; when it returns the changes are in the journal. An announced
// page stays offered, whatever the Inventory offers, until it is announced as gone or
// forbidden by a rule. If the Inventory offers it too, the Inventory's data count from
// the next scan on, and only a scan can find its deletion.
//
// Announcements may come in any order, and more than once: a Modified older than
// the one known of the page, and a known digest, change nothing; nor does older news
// of a page that was announced as gone, as described at Announcement.Modified.
// For that the state keeps the last 100,000 deletions or so. Announcements of one
// call are applied in their order in the list.
//
// Announced pages are known from the state alone. If it is lost, the manifest
// keeps these pages published, and they are held until they are announced again:
// see [OpenJournal].
//
// Announce waits for a scan in progress. Before the first scan of this process, and
// before the first description is whole, the error wraps content.ErrNotReady.
func (p *Publisher) Announce(ctx context.Context, list []protocol.Announcement) (protocol.Announced, error) {
	failed := func(err error) (protocol.Announced, error) {
		return protocol.Announced{}, fmt.Errorf("announce: %w", err)
	}
	if len(list) > protocol.MaxBatch {
		return failed(fmt.Errorf("%d pages at once, more than %d: split the list", len(list), protocol.MaxBatch))
	}
	turn, unlock, err := p.lockTurn(ctx)
	if err != nil {
		return failed(fmt.Errorf("wait for the current scan: %w", err))
	}
	defer unlock()
	if !p.Ready() || !p.Journal.Whole() {
		return failed(content.ErrNotReady)
	}
	t := &announceBatch{p: p, now: p.now(), state: make(map[string]known)}
	if p.Pages.Max > 0 {
		t.pages = p.Journal.Len()
		if err := compare.EachHeld(p.Journal, func(journal.Entry) { t.pages-- }); err != nil {
			return failed(err)
		}
	}
	for _, a := range list {
		if err := t.add(a); err != nil {
			return failed(err)
		}
	}
	// A deletion that is stored as a note and then not appended does no harm: the page stays
	// until it is announced again. The other way round, a late announcement would
	// bring a deleted page back.
	if err := turn.deletions.remember(p.Journal, t.went, t.now); err != nil {
		return failed(err)
	}
	was := p.Journal.Head()
	if len(t.steps) > 0 {
		if err := p.mark(); err != nil {
			return failed(err)
		}
		if _, err := p.Journal.Append(ctx, t.steps); err != nil {
			return failed(err)
		}
	}
	t.done.Cursor = p.Journal.Head()
	turn.announced += t.more
	if t.old > 0 {
		p.log().Info("announced pages stay deleted: their dates are not later than their deletion", "pages", t.old, "one", t.oldURL)
	}
	s := &p.state
	s.tally.mu.Lock()
	s.tally.status.Changes += int(t.done.Cursor.Seq - was.Seq)
	s.tally.mu.Unlock()
	pause.Wake(s.stale)
	if len(t.dirty) > 0 {
		s.agenda.dirty(t.dirty)
	}
	return t.done, nil
}

// known is what is known of a URL while announcements are applied.
type known struct {
	entry   journal.Entry
	present bool
	went    time.Time // of an absent page: news with a date up to this are old
}

// An announceBatch applies announcements, one after another.
type announceBatch struct {
	p     *Publisher
	now   time.Time
	state map[string]known // of URLs that have been read from the journal
	steps []journal.Step
	went  map[string]time.Time // deletions to be stored as notes, see deletions
	dirty []inventory.Scope    // to be scanned
	old   int                  // announcements of deleted pages, dated no later than their deletion
	pages int                  // of the site before; used only if Pages.Max limits them
	more  int                  // change in the number of announced entries
	done  protocol.Announced

	oldURL string // the URL of one of the old
}

// add applies one announcement. Its error is an error of the journal.
func (t *announceBatch) add(a protocol.Announcement) error {
	url, reason := t.urlOf(a.URL)
	if reason == "" {
		reason = clean(&a, url, t.now)
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
			if k.went, err = deletedAt(t.p.Journal, url); err != nil {
				return err
			}
		}
	}
	switch was := compare.IsAnnounced(k.entry); {
	case a.Gone && k.present && !was && (!compare.IsInherited(k.entry) || k.entry.Held.IsZero()):
		// The next scan would find the page again.
		t.refuse(url, "the site's inventory still offers the page: remove it there to delete it")
		t.dirty = append(t.dirty, inventory.ScopeOf(url))
	case a.Gone:
		t.gone(url, a, &k)
	default:
		t.exists(url, a, &k)
		if !was && compare.IsAnnounced(k.entry) {
			t.more++
		}
	}
	t.state[url] = k
	return nil
}

func (t *announceBatch) refuse(url, reason string) {
	if len(url) > 200 {
		url = strings.ToValidUTF8(url[:200], "") + "..."
	}
	t.done.Refused = append(t.done.Refused, protocol.Refused{URL: url, Reason: reason})
}

// urlOf returns the canonical URL of an announcement, or why it is refused.
func (t *announceBatch) urlOf(ref string) (url, reason string) {
	base := ""
	if s := t.p.Snapshot; s != nil {
		base = s.Manifest.Base
	}
	url, err := protocol.CanonicalURL(base, ref)
	switch {
	case err != nil:
		return "", err.Error()
	case !strings.HasPrefix(url, base):
		return "", "the URL is not below " + base
	case !t.p.Inventory.Public(url):
		return "", "the site's rules do not allow the page: its name is not included, or is hidden, or robots.txt forbids it"
	}
	return url, ""
}

// clean brings an announcement into the form in which it is delivered, or
// returns why it is refused.
func clean(a *protocol.Announcement, url string, now time.Time) (reason string) {
	if !a.Modified.IsZero() {
		if _, ok := protocol.SaneModified(a.Modified, now, protocol.DateLimits{}); !ok {
			return "modified is before 1993, or more than a day in the future"
		}
	} else if a.Digest.IsZero() && !a.Gone {
		return "neither modified nor digest is given: changes of the page could not be detected"
	}
	if a.Length != nil && *a.Length < 0 {
		return "length is negative"
	}
	f := inventory.Features{Title: a.Title, Language: a.Language, Canonical: a.Canonical}
	f.Clean(url)
	a.Title, a.Language, a.Canonical, a.Type = f.Title, f.Language, f.Canonical, cleanType(a.Type)
	return ""
}

func (t *announceBatch) gone(url string, a protocol.Announcement, k *known) {
	at, said := a.Modified.Truncate(time.Millisecond), announcedModified(k.entry)
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
		t.steps = append(t.steps, compare.Deletion(url))
		*k = known{}
	}
	if dated {
		k.went = at // without a date, announcements after it in the list are later
	}
	if t.went == nil {
		t.went = make(map[string]time.Time)
	}
	t.went[url] = at
}

// isOld reports whether an announcement of an absent page is older than the page's deletion.
func (t *announceBatch) isOld(url string, a protocol.Announcement, k *known) bool {
	at := a.Modified.Truncate(time.Millisecond)
	switch {
	case a.Modified.IsZero():
		return false
	case !at.After(k.went):
		t.done.Unchanged++
		t.old, t.oldURL = t.old+1, url
		return true
	case !at.After(t.went[url]): // it was deleted without a date: before this one in the list
		t.went[url] = at.Add(-time.Millisecond)
	}
	return false
}

func (t *announceBatch) exists(url string, a protocol.Announcement, k *known) {
	stamp := stampOf(a)
	o := inventory.Offer{URL: url, Modified: a.Modified, Length: -1, Type: a.Type, Title: a.Title, Digest: a.Digest, Stamp: stamp,
		Language: a.Language, Canonical: a.Canonical, Text: a.Text}
	if a.Length != nil {
		o.Length = *a.Length
	}
	if !k.present {
		if t.isOld(url, a, k) {
			return
		}
		if most := t.p.Pages.Max; most > 0 && t.pages+t.done.Created-t.done.Deleted >= most {
			t.refuse(url, fmt.Sprintf("the site already has %d pages, its maximum (max-pages)", most))
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
	case news == 0: // it had vanished, or the state was lost, and now it is announced as present
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

// compareNews returns 1 if an announcement differs from what is known, 0 if it says
// the same, and -1 if it is older.
func compareNews(a protocol.Announcement, was journal.Entry) int {
	age, said := 1, announcedModified(was) // if either has no date, the digest decides
	if !a.Modified.IsZero() && !said.IsZero() {
		age = a.Modified.Truncate(time.Millisecond).Compare(said)
	}
	switch {
	case bytes.Equal(stampOf(a), was.Stamp), !a.Digest.IsZero() && a.Digest == was.Item.Digest:
		return 0
	case age == 0 && !a.Digest.IsZero():
		return 1 // edited twice within a second, the precision of most dates
	}
	return age
}

func (t *announceBatch) importance(e *journal.Entry) {
	if f := t.p.Pages.Importance; f != nil {
		e.Item.Importance = f(e.Item.URL)
	}
}

// stampOf returns a value that only an announcement with the same content has too.
func stampOf(a protocol.Announcement) []byte {
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
// empty string if s is not one.
func cleanType(s string) string {
	t, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(t, "/") || len(t) > 127 {
		return ""
	}
	return t
}
