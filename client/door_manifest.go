package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// openManifest requests the manifest at u. It returns nil if h has a condition, and the site answers that the
// manifest last read is still current.
func (f *fetcher) openManifest(ctx context.Context, u string, h http.Header) (*http.Response, *protocol.ManifestReader, error) {
	h.Set("Accept", protocol.ManifestType+", application/xml;q=0.9, */*;q=0.1")
	resp, err := f.get(ctx, u, h, stall)
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode == http.StatusNotModified {
		resp.Body.Close()
		return nil, nil, nil
	}
	return resp, protocol.NewManifestReader(resp.Body, protocol.ManifestOptions{
		URL: resp.Request.URL.String(), Origin: f.origin, MaxBytes: f.src.MaxManifest,
	}), nil
}

// DefaultMaxManifest is the largest manifest that is read, in bytes, where Source.MaxManifest is zero.
const DefaultMaxManifest = 4 << 30

// maxParts bounds the number of parts of the answer to a query.
const maxParts = 10_000

// nextPart returns the URL of the next part of an answer, from the Link header, or the empty string.
func (w *selection) nextPart(h http.Header) string {
	if !w.asksSite() {
		return ""
	}
	for _, line := range h.Values("Link") {
		for one := range strings.SplitSeq(line, ", <") {
			ref, params, ok := strings.Cut(strings.TrimPrefix(one, "<"), ">")
			if ok && strings.Contains(params, `rel="next"`) {
				if u, err := w.door(ref); err == nil {
					return u
				}
			}
		}
	}
	return ""
}

// A listing reads what a site offers: a manifest, or the parts of the answer to a query as if they were one.
type listing struct {
	want    *selection
	resp    *http.Response
	r       *protocol.ManifestReader
	parts   int
	first   protocol.Manifest // the head of the first part, once that was read to its end
	skipped int               // in the parts before this one
}

// next returns the next record, and io.EOF after the last part.
func (l *listing) next(ctx context.Context) (protocol.Record, error) {
	for {
		rec, err := l.r.Next()
		if err == nil && l.parts > 0 && l.r.Head().Cursor.Epoch != l.first.Cursor.Epoch {
			return rec, fmt.Errorf("next part has cursor %v, in another epoch than %v of the first part", l.r.Head().Cursor, l.first.Cursor)
		}
		if err != io.EOF {
			return rec, err
		}
		next := l.want.nextPart(l.resp.Header)
		if next == "" {
			return rec, io.EOF
		}
		if l.parts == 0 {
			l.first = l.r.Head()
		}
		if l.parts++; l.parts > maxParts {
			return rec, fmt.Errorf("response has more than %d parts", maxParts)
		}
		n, _ := l.r.Skipped()
		l.skipped += n
		resp, r, err := l.want.openManifest(ctx, next, l.want.header())
		if err != nil {
			return rec, err
		}
		l.resp.Body.Close()
		l.resp, l.r = resp, r
	}
}

// head returns the listing's head. Of several parts it is that of the first, whose cursor is the one to
// resume from. That of an index is as if it were the whole manifest.
func (l *listing) head() protocol.Manifest {
	head := l.first
	if l.parts == 0 {
		head = l.r.Head()
	}
	if head.Whole != nil {
		head.Cursor, head.Complete = head.Whole.Cursor, true
	}
	return head
}

// left counts the entries skipped so far, and returns why.
func (l *listing) left() (int, []error) {
	n, why := l.r.Skipped()
	return l.skipped + n, why
}

// A manifestDoor reads the manifest, or the answer to a query in its place.
type manifestDoor struct {
	*position
	want     *selection
	schedule *schedule
	known    fetch.Validators // of the manifest last read to its end
	spool    partSpool
}

// take emits the manifest as a snapshot, if it is new; or, if the site answers with a part (226) or has a manifest in
// parts, the changes since the last one. Before the doors are known it only looks for a better one, and leaves the
// changes to that. With conditional it sends the validators of the last manifest. A stale index is requested once more,
// past all caches; if that is stale too, take waits for the next poll. If it was behind the caller's cursor, the cursor is
// doubtful from then on.
func (d *manifestDoor) take(ctx context.Context, conditional bool) error {
	begun, stale := time.Now(), new(staleError)
	err := d.read(ctx, conditional, false)
	if errors.As(err, &stale) {
		err = d.read(ctx, false, true)
	}
	if !errors.As(err, &stale) {
		return err
	}
	if d.schedule.progress.Before(begun) {
		d.schedule.postpone()
	}
	if stale.behind && !d.doubtful {
		d.doubtful = true
		return cmp.Or(d.emit(Step{Cursor: d.cursor, Door: Manifest, As: protocol.AsMeta}), err)
	}
	return err
}

// read is take without repetition. With fresh it accepts no stored response of a cache.
func (d *manifestDoor) read(ctx context.Context, conditional, fresh bool) (err error) {
	w := d.want
	u, err := w.describedAt()
	if err != nil {
		return err
	}
	h := w.header()
	if conditional {
		maps.Copy(h, d.known.Header())
		if d.known.ETag != "" && !d.cursor.IsZero() && w.filter.IsZero() && !d.doubtful {
			h.Set("A-IM", "feed") // RFC 3229: the changes since then are enough
		}
	}
	if fresh {
		h.Set("Cache-Control", "no-cache")
	}
	resp, r, err := w.openManifest(ctx, u, h)
	if err != nil {
		return err
	}
	if resp == nil {
		d.took(fetch.Validators{})
		return d.mended(Manifest, protocol.AsMeta)
	}
	l := &listing{want: w, resp: resp, r: r}
	defer func() { l.resp.Body.Close() }()
	defer func(begun time.Time) { d.schedule.read(begun, err) }(time.Now())
	validators := fetch.ValidatorsOf(resp.Header)
	s := &steps{door: d, part: resp.StatusCode == http.StatusIMUsed}
	opening := !d.doors.found && !w.src.Once // a better door is looked for
	for begun := false; ; begun = true {
		rec, err := l.next(ctx)
		if err != nil && err != io.EOF {
			if !begun && protocol.Origin(l.head().Base) != w.origin { // an index of another site
				err = &ElsewhereError{URL: resp.Request.URL.String(), Of: l.head().Base}
			}
			return err
		}
		head := l.head()
		if !begun || head.Whole != nil || err == io.EOF && !s.part && !s.begun {
			if head.Whole != nil {
				if err := d.stale(head.Cursor, validators); err != nil {
					return err
				}
			}
			news, err := d.isNews(head, s.part)
			switch {
			case err != nil:
				return err
			case opening && head.Cursor.Epoch == d.cursor.Epoch && !d.doubtful && d.doors.best(exists) != Manifest:
				return nil // that door has the news
			case !news:
				d.took(validators)
				return d.mended(Manifest, protocol.AsMeta)
			}
		}
		if head.Whole != nil {
			io.CopyN(io.Discard, resp.Body, protocol.MaxIndex) // its items, so that the connection can be used again
			l.resp.Body.Close()
			return d.readParts(ctx, head, validators)
		}
		skipped, why := l.left()
		if err == io.EOF {
			if skipped > 0 && s.named == 0 && !s.part { // a site reachable at two addresses has a manifest of one of them
				u := resp.Request.URL.String()
				if protocol.Origin(head.Base) != w.origin {
					return &ElsewhereError{URL: u, Of: head.Base}
				}
				return fmt.Errorf("%s names no page of its own origin among %d entries: %w", u, skipped, errors.Join(why[:min(len(why), 1)]...))
			}
			if behind(head.Cursor, d.cursor) || s.part && head.Cursor.Epoch != d.cursor.Epoch { // the head may have been read last, after the items
				return fmt.Errorf("manifest has cursor %v, which does not continue %v", head.Cursor, d.cursor)
			}
			if skipped > 0 {
				w.src.Log.Warn("invalid entries of the manifest are ignored", "entries", skipped, "first", why)
			}
			return s.end(head, validators, skipped)
		}
		s.complete = head.Complete
		if err := s.add(&rec, skipped); err != nil {
			return err
		}
	}
}

// steps emits the records of a manifest as Steps of bounded size.
type steps struct {
	door           *manifestDoor
	part, complete bool // the records are changes; absence means gone
	s              Step
	begun          bool // a Step was emitted
	named          int  // records
	skipped        int  // entries counted in a Step.Skipped so far
}

// emit emits the current Step, and begins the next.
func (p *steps) emit() error {
	s := p.s
	s.Door, s.As, s.Reset = Manifest, protocol.AsMeta, !p.part && !p.begun
	s.Parts, p.door.spool.fetched = p.door.spool.fetched, 0
	p.s, p.begun = Step{}, true
	return p.door.emit(s)
}

// add adds a record, after the current Step was emitted if that is full. The reader has skipped so many entries.
func (p *steps) add(rec *protocol.Record, skipped int) error {
	if len(p.s.Changes) == protocol.MaxBatch {
		p.s.Skipped, p.skipped = skipped-p.skipped, skipped
		if err := p.emit(); err != nil {
			return err
		}
	}
	p.named++
	if c, ok := p.door.listed(rec, p.part, p.complete); ok {
		p.s.Changes = append(p.s.Changes, c)
	}
	return nil
}

// end emits the last Step, which moves the cursor.
func (p *steps) end(head protocol.Manifest, from fetch.Validators, skipped int) error {
	d := p.door
	// The answer to a query names all that matches, so it is whole though it is less than the site.
	p.s.Skipped, p.s.Cursor, p.s.Whole = skipped-p.skipped, head.Cursor, !p.part && (head.Complete || d.want.asksSite() && d.want.filter.Since.IsZero())
	p.s.ETag, p.s.LastModified = from.ETag, from.LastModified
	d.cursor, d.doubtful = head.Cursor, d.doubtful && p.part
	d.want.stated(head)
	d.took(from)
	return p.emit()
}

// listed returns the change that a record of a manifest stands for, and whether to report it.
func (d *manifestDoor) listed(rec *protocol.Record, part, complete bool) (protocol.Change, bool) {
	t, filter := rec.Gone, &d.want.filter
	if t == nil {
		wanted := filter.Wants(&rec.Item)
		switch {
		case !part:
			return protocol.Change{Op: protocol.Create, Item: rec.Item}, wanted
		case wanted:
			return protocol.Change{Op: protocol.Update, Item: rec.Item}, true
		}
		t = &protocol.Tombstone{URL: rec.Item.URL} // it may have matched before
	}
	return protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: t.URL, Length: -1}, At: t.At, Prev: t.Prev},
		part && filter.WantsURL(t.URL) || !part && !complete && !d.want.asksSite() // else absence says it too
}

// took records that the manifest was read.
func (d *manifestDoor) took(validators fetch.Validators) {
	d.known = cmp.Or(validators, d.known)
	d.schedule.renew()
	d.renewed()
}

// isNews reports whether the manifest's cursor differs from the caller's, or that is doubtful. It is an error if it is older, if
// it is the same while a snapshot is needed, or if a part of a manifest does not continue from the caller's
// cursor.
func (d *manifestDoor) isNews(head protocol.Manifest, part bool) (bool, error) {
	switch {
	case part && head.Cursor.Epoch != d.cursor.Epoch:
		d.known = fetch.Validators{} // so that it comes whole
		return false, fmt.Errorf("partial manifest has cursor %v, which does not continue %v", head.Cursor, d.cursor)
	case d.cursor.IsZero() || head.Cursor.Epoch != d.cursor.Epoch:
		return true, nil
	case behind(head.Cursor, d.cursor), d.resync && head.Cursor == d.cursor:
		d.schedule.renew()
		return false, fmt.Errorf("manifest has cursor %v, which is not later than ours, %v", head.Cursor, d.cursor)
	}
	d.want.stated(head)
	return head.Cursor != d.cursor || d.doubtful, nil
}
