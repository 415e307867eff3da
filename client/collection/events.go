package collection

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/parleyweb/parley/client/collection/internal/changes"
	"github.com/parleyweb/parley/client/collection/internal/mirror"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// An Event is a change of the stored content, as one line of JSON for programs that derive something from
// it, such as an index.
type Event struct {
	// Cursor is the position after the event. The reader stores it together with the effect of the event, to
	// continue there. In a snapshot only the last event has one.
	Cursor protocol.Cursor `json:"cursor,omitzero"`

	At time.Time   `json:"at"` // when the collection stored it
	Op protocol.Op `json:"op"` // create, update, delete or move

	URL  string `json:"url"`
	From string `json:"from,omitempty"` // of a move: the old URL of the content, which is gone

	Title     string `json:"title,omitempty"`
	Language  string `json:"language,omitempty"`
	Canonical string `json:"canonical,omitempty"`

	Digest protocol.Digest `json:"digest,omitzero"` // of the body
	Text   protocol.Digest `json:"text,omitzero"`   // of the main text, if extracted

	// TextChanged is false if the main text is known to be unchanged: then an indexer has nothing to do.
	// After a delete it is true.
	TextChanged bool `json:"text_changed"`

	Marks

	Signal   Signal    `json:"signal,omitempty"` // why the page was fetched
	Length   int64     `json:"length"`           // of the body; -1: none, or unknown
	Type     string    `json:"type,omitempty"`
	Modified time.Time `json:"modified,omitzero"`

	// Stored is the place of the new body.
	Stored contents.Place `json:"stored,omitzero"`

	// Snapshot: this is not a change, but stored content: the reader began without a cursor, and the
	// collection does not have all changes any more. A page without an event between the first and the one
	// with a cursor is not stored.
	Snapshot bool `json:"snapshot,omitempty"`
}

// Marks are flags of a page in an event.
type Marks struct {
	Truncated bool `json:"truncated,omitempty"` // the body is longer than the part that was read, which is Length bytes
	NoIndex   bool `json:"noindex,omitempty"`   // the page asks for noindex
	NoFollow  bool `json:"nofollow,omitempty"`  // and for nofollow
}

// Log returns the collection's journal. A Notifier can serve it like a site's, so a crawler can be a publisher. It is nil
// for a collection of the version before that is opened read-only and has never had an event.
func (c *Collection) Log() protocol.Log {
	if j := c.sinks.log.Journal(); j != nil {
		return j
	}
	return nil
}

// Events yields the changes after a cursor, in order; with follow it waits for more until ctx ends, and then
// returns ctx's error. After the zero Cursor it yields all changes ever, or a snapshot if some of them are
// forgotten. A reader that stores the cursor of each event with its effect gets each event exactly once,
// however often it crashes.
//
// A cursor that cannot be continued is an error wrapping protocol.ErrEpoch or protocol.ErrTooOld: the reader
// starts over with the zero Cursor. Changes are kept for 90 days, and at most Options.MaxEvents of them. The
// loop body may take as long as it likes, and may use the collection.
func (c *Collection) Events(ctx context.Context, after protocol.Cursor, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		stopped := errors.New("stopped")
		err := c.sinks.log.Events(ctx, after, follow, func(is *changes.Event) error {
			ch, a := &is.Change, &is.Aside
			it := &ch.Item
			e := Event{Cursor: is.Cursor, At: ch.At, Op: ch.Op, URL: it.URL, From: ch.From, Title: it.Title, Language: it.Language, Canonical: it.Canonical,
				Digest: it.Digest, Text: it.Text, TextChanged: !a.Same, Marks: Marks{a.Truncated, a.NoIndex, a.NoFollow}, Signal: signalOf(a.Signal),
				Length: it.Length, Type: it.Type, Modified: it.Modified, Stored: a.Stored, Snapshot: is.Snapshot}
			if is.Snapshot {
				p, ok, err := c.Page(it.URL)
				if err != nil {
					return err
				}
				if ok && p.Digest == it.Digest {
					e.Stored, e.Signal, e.At, e.Marks = p.Stored, p.Signal, p.Last, Marks{p.Cut, p.NoIndex, p.NoFollow}
				}
			}
			if !yield(e, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && err != stopped {
			yield(Event{}, fmt.Errorf("read events: %w", err))
		}
	}
}

// withheld reports whether nothing of a site is given to others.
func (c *Collection) withheld(id frontier.SiteID) bool {
	s, ok := c.SiteByID(id)
	return ok && s.Withheld
}

// items yields the journal's items for all stored contents that are not withheld.
func (o *opening) items(yield func(protocol.Item, error) bool) {
	for p, err := range o.c.Pages(context.Background()) {
		if (err != nil || p.has() && !o.c.withheld(p.Site)) && !yield(p.item(p.Last, o.c.opts.Dates), err) {
			return
		}
	}
}

// item returns the journal's item for a page's content.
func (p *Page) item(changed time.Time, dates protocol.DateLimits) protocol.Item {
	it := protocol.Item{URL: p.URL, Title: p.Title, Modified: changed, Length: p.Length, Type: p.Type, Digest: p.Digest, Text: p.Text,
		Language: p.Language, Canonical: p.Canonical, Importance: protocol.ImportanceOf(float64(p.Importance))}
	if t, err := http.ParseTime(p.LastModified); err == nil {
		if t, ok := protocol.SaneModified(t, changed, dates); ok {
			it.Modified = t
		}
	}
	if it.Canonical == it.URL {
		it.Canonical = ""
	}
	return it
}

// A news is a change of the stored content, for subscribers of the collection.
type news struct {
	op      protocol.Op
	page    *Page           // after the change; tell may set Stored, the page is written afterwards
	prev    protocol.Digest // the digest before; zero if nothing was stored
	text    protocol.Digest // the main text's digest before
	from    string          // of a Move: the old URL of the content
	source  frontier.PageID // the page of that URL
	signal  Signal
	changed time.Time // when we learned of it
}

// names returns the mirror's names in the transaction.
func (u *update) names() (_ *mirror.Names, err error) {
	if u.files == nil {
		u.files, err = u.c.sinks.mirror.In(u.tx, u.c.sinks.log.Journal().Head().Seq)
	}
	return u.files, err
}

// tell stores a change for subscribers, and its file operations.
func (u *update) tell(n news) error {
	if u.sites.at(n.page.Site).Withheld {
		return u.withdraw(n.from, n.page.URL)
	}
	if err := u.setFile(&n); err != nil {
		return err
	}
	p := n.page
	step := journal.Step{Op: n.op, From: n.from}
	a := changes.Aside{Signal: n.signal.code()}
	if n.op == protocol.Delete {
		step.Entry.Item = protocol.Item{URL: p.URL, Length: -1}
		return u.c.sinks.log.Tell(u.tx, step, a)
	}
	step.Entry.Item = p.item(n.changed, u.c.opts.Dates)
	a.Stored, a.Truncated, a.NoIndex, a.NoFollow = p.Stored, p.Cut, p.NoIndex, p.NoFollow
	if a.Same = !n.text.IsZero() && n.text == p.Text || n.op == protocol.Move && n.prev == p.Digest; a.Same {
		step.Significance = protocol.SignificanceOf(0)
	}
	return u.c.sinks.log.Tell(u.tx, step, a)
}

// withdraw tells subscribers that pages are gone which they were told of before anything of their site was withheld.
func (u *update) withdraw(urls ...string) error {
	for _, url := range urls {
		if url == "" {
			continue
		}
		step := journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: url, Length: -1}}}
		if err := u.c.sinks.log.Tell(u.tx, step, changes.Aside{}); err != nil {
			return err
		}
	}
	return nil
}

// restore puts back a lost file, which a visit has brought unchanged: no news.
func (u *update) restore(p *Page) error {
	if m := u.c.sinks.mirror; m == nil || !m.Kept(p.ID) {
		return nil
	}
	return u.setFile(&news{op: protocol.Update, page: p})
}

// setFile makes the mirror's file follow a change of its page, and sets its place.
func (u *update) setFile(n *news) error {
	if u.c.sinks.mirror == nil {
		return nil
	}
	names, err := u.names()
	if err != nil {
		return err
	}
	name, err := names.Tell(n.op, fileOf(n.page), n.source)
	if err != nil || u.c.sinks.store.HasArchive() {
		return err
	}
	n.page.Stored = contents.Place{}
	if name != "" {
		n.page.Stored.File = contents.MirrorDir + "/" + name
	}
	return nil
}

func fileOf(p *Page) mirror.Page { return mirror.Page{ID: p.ID, URL: p.URL, Type: p.Type} }

// promote gives pages of a copy their natural names, where those have become free.
func (u *update) promote() error {
	if m := u.c.sinks.mirror; m == nil || !m.Freed() {
		return nil
	}
	names, err := u.names()
	if err != nil {
		return err
	}
	page := func(id frontier.PageID) (mirror.Page, error) {
		w, err := u.pages.get(id)
		if err != nil {
			return mirror.Page{}, err
		}
		if w == nil {
			return mirror.Page{}, record.Damaged(changes.Bucket, []byte("paths"))
		}
		return fileOf(&w.Page), nil
	}
	return names.Promote(page, func(id frontier.PageID, name string) error {
		w, err := u.pages.get(id)
		if err == nil {
			w.Stored, w.dirty = contents.Place{File: contents.MirrorDir + "/" + name}, true
		}
		return err
	})
}
