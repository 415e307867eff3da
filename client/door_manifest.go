package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// openManifest asks for a manifest at u. It returns nil where the site says that
// the one that was last taken in still stands.
func (f *follower) openManifest(ctx context.Context, u string, conditional bool) (*http.Response, *protocol.ManifestReader, error) {
	h := f.header()
	h.Set("Accept", protocol.ManifestType+", application/xml;q=0.9, */*;q=0.1")
	if conditional {
		if f.etag != "" {
			h.Set("If-None-Match", f.etag)
			if !f.cursor.IsZero() && f.filter.IsZero() {
				h.Set("A-IM", "feed") // RFC 3229: what has changed since then is enough
			}
		}
		if f.lastModified != "" {
			h.Set("If-Modified-Since", f.lastModified)
		}
	}
	resp, err := f.get(ctx, u, h, stall)
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode == http.StatusNotModified {
		resp.Body.Close()
		return nil, nil, nil
	}
	return resp, protocol.NewManifestReader(resp.Body, protocol.ManifestOptions{
		URL: resp.Request.URL.String(), Origin: f.origin, MaxBytes: f.maxManifest,
	}), nil
}

// asksSite reports whether the site alone knows what the filter lets through,
// so that it is asked for that in place of the manifest.
func (f *follower) asksSite() bool {
	return f.filter.Where != "" && f.offer != nil && f.offer.Query != ""
}

// describedAt is where the site says what it offers: all of it, or what the filter lets through.
func (f *follower) describedAt() (string, error) {
	if !f.asksSite() {
		return f.manifestURL, nil
	}
	page := f.filter // what is asked of changes alone says nothing of a page
	page.Ops, page.MinSignificance, page.Agent = nil, 0, protocol.Digest{}
	return withQuery(f.offer.Query, page.Query())
}

// DefaultMaxManifest is how large a manifest may be, in bytes, where Source.MaxManifest is zero.
const DefaultMaxManifest = 4 << 30

// maxParts bounds in how many parts the answer to a query may come.
const maxParts = 10_000

// nextPart returns where the rest of an answer is to be had, empty if there is none.
func (f *follower) nextPart(h http.Header) string {
	if !f.asksSite() {
		return ""
	}
	for _, line := range h.Values("Link") {
		for one := range strings.SplitSeq(line, ", <") {
			ref, params, ok := strings.Cut(strings.TrimPrefix(one, "<"), ">")
			if ok && strings.Contains(params, `rel="next"`) {
				if u, err := door(f.base, ref); err == nil {
					return u
				}
			}
		}
	}
	return ""
}

// A listing is what a site offers: a manifest, or the parts of the answer to a
// query as if they were one.
type listing struct {
	f       *follower
	resp    *http.Response
	r       *protocol.ManifestReader
	parts   int
	first   protocol.Manifest // what the first part says of itself, when it was read
	skipped int               // in the parts before
}

// next returns what follows, and io.EOF at the end of it all.
func (l *listing) next(ctx context.Context) (protocol.Record, error) {
	for {
		rec, err := l.r.Next()
		if err == nil && l.parts > 0 && l.r.Head().Cursor.Epoch != l.first.Cursor.Epoch {
			return rec, fmt.Errorf("the next part of an answer stands at %v, not as the first at %v", l.r.Head().Cursor, l.first.Cursor)
		}
		if err != io.EOF {
			return rec, err
		}
		next := l.f.nextPart(l.resp.Header)
		if next == "" {
			return rec, io.EOF
		}
		if l.parts == 0 {
			l.first = l.r.Head()
		}
		if l.parts++; l.parts > maxParts {
			return rec, fmt.Errorf("answer of more than %d parts", maxParts)
		}
		n, _ := l.r.Skipped()
		l.skipped += n
		resp, r, err := l.f.openManifest(ctx, next, false)
		if err != nil {
			return rec, err
		}
		l.resp.Body.Close()
		l.resp, l.r = resp, r
	}
}

// head is what the listing says of itself: of several parts the first says
// where the caller stands after them.
func (l *listing) head() protocol.Manifest {
	if l.parts > 0 {
		return l.first
	}
	return l.r.Head()
}

// left counts what was left out so far, and says why.
func (l *listing) left() (int, []error) {
	n, why := l.r.Skipped()
	return l.skipped + n, why
}

// takeManifest emits what the manifest offers as a snapshot, if that is news; or,
// where the site says no more than that, what has changed. It is asked conditionally where the one that is known will do.
func (f *follower) takeManifest(ctx context.Context, conditional bool) (err error) {
	u, err := f.describedAt()
	if err != nil {
		return err
	}
	resp, r, err := f.openManifest(ctx, u, conditional)
	if err != nil {
		return err
	}
	if resp == nil {
		f.tookManifest("", "")
		return f.mended(Manifest, protocol.AsMeta)
	}
	l := &listing{f: f, resp: resp, r: r}
	defer func() { l.resp.Body.Close() }()
	defer func(begun time.Time) {
		took := time.Since(begun)
		wait := min(manifestTax*took, max(f.poll, longestWait))
		if err == nil {
			f.broken = 0
		} else { // one that has no end is not read again and again: each time in a row costs twice as long a wait
			wait = max(wait, min(took<<min(f.broken, 16), longestBroken))
			f.broken++
		}
		f.spared = time.Now().Add(f.hurried(wait))
	}(time.Now())
	validators := fetch.ValidatorsOf(resp.Header)
	part := resp.StatusCode == http.StatusIMUsed

	s := Step{Door: Manifest, As: protocol.AsMeta, Reset: !part}
	skipped := 0 // and told
	named := 0   // of this origin
	for begun := false; ; begun = true {
		rec, err := l.next(ctx)
		if err != nil && err != io.EOF {
			return err
		}
		if !begun || err == io.EOF && s.Reset {
			if news, err := f.isNews(l.head(), part); err != nil || !news {
				if err == nil {
					f.tookManifest(validators.ETag, validators.LastModified)
					err = f.mended(Manifest, protocol.AsMeta)
				}
				return err
			}
		}
		if err == io.EOF {
			if n, why := l.left(); n > 0 && named == 0 && !part { // a site at two addresses has a manifest of one of them
				u := resp.Request.URL.String()
				if protocol.Origin(l.head().Base) != f.origin {
					return &ElsewhereError{URL: u, Of: l.head().Base}
				}
				return fmt.Errorf("%s names no page of its own origin among %d entries: %w", u, n, errors.Join(why[:min(len(why), 1)]...))
			}
			break
		}
		if len(s.Changes) == protocol.MaxBatch {
			n, _ := l.left()
			s.Skipped, skipped = n-skipped, n
			if err := f.emit(s); err != nil {
				return err
			}
			s = Step{Door: Manifest, As: protocol.AsMeta}
		}
		named++
		if c, ok := f.listed(&rec, part, l.head().Complete); ok {
			s.Changes = append(s.Changes, c)
		}
	}
	head := l.head()
	if behind(head.Cursor, f.cursor) || part && head.Cursor.Epoch != f.cursor.Epoch { // the channel came last
		return fmt.Errorf("manifest stands at %v, before %v", head.Cursor, f.cursor)
	}
	n, why := l.left()
	if n > 0 {
		f.log.Warn("invalid entries of the manifest are ignored", "site", f.base, "entries", n, "first", why)
	}
	// What the site alone can judge it names whole, too, though it is less than all.
	s.Skipped, s.Cursor, s.Whole = n-skipped, head.Cursor, !part && (head.Complete || f.asksSite() && f.filter.Since.IsZero())
	s.ETag, s.LastModified = validators.ETag, validators.LastModified
	f.cursor = head.Cursor
	f.manifestDoors(head)
	f.tookManifest(validators.ETag, validators.LastModified)
	return f.emit(s)
}

// listed is what a record of a manifest tells, if anything.
func (f *follower) listed(rec *protocol.Record, part, complete bool) (protocol.Change, bool) {
	t := rec.Gone
	switch {
	case t == nil && part:
		return protocol.Change{Op: protocol.Update, Item: rec.Item}, true
	case t == nil:
		return protocol.Change{Op: protocol.Create, Item: rec.Item}, f.filter.Wants(&rec.Item)
	}
	return protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: t.URL, Length: -1}, At: t.At, Prev: t.Prev},
		part || !complete && !f.asksSite() // else absence says it too
}

// tookManifest says that the caller knows what the manifest says. Where the
// site has no journal that is all; else it proves itself at the other doors.
func (f *follower) tookManifest(etag, lastModified string) {
	if etag != "" || lastModified != "" {
		f.etag, f.lastModified = etag, lastModified
	}
	f.pollAt = time.Now().Add(f.nextLook())
	if !f.resync || f.cursor.IsZero() || !f.stream.exists() && !f.changes.exists() {
		f.went(Manifest)
	}
	f.resync, f.noArchive = false, false
}

// isNews reports whether a manifest stands elsewhere than the caller. It is an
// error if it stands before, or where the site does not continue from; what is
// only a part of one must continue what the caller has.
func (f *follower) isNews(head protocol.Manifest, part bool) (bool, error) {
	switch {
	case part && head.Cursor.Epoch != f.cursor.Epoch:
		f.etag, f.lastModified = "", "" // so that it comes whole
		return false, fmt.Errorf("part of a manifest stands at %v, which does not continue %v", head.Cursor, f.cursor)
	case f.cursor.IsZero() || head.Cursor.Epoch != f.cursor.Epoch:
		return true, nil
	case behind(head.Cursor, f.cursor), f.resync && head.Cursor == f.cursor:
		f.pollAt = time.Now().Add(f.nextLook())
		return false, fmt.Errorf("manifest stands at %v, which brings nobody on from %v", head.Cursor, f.cursor)
	}
	f.manifestDoors(head)
	return head.Cursor != f.cursor, nil
}

// manifestDoors takes the doors that a manifest names. An answer to a query need not name any.
func (f *follower) manifestDoors(head protocol.Manifest) {
	if f.named(head.Discovery) && f.offer != nil && f.offer.Version == 0 {
		f.offer = nil // it was silent where it was asked
	}
	if !f.asksSite() || head.Stream != "" || head.Changes != "" {
		f.setDoors(head.Stream, head.Changes)
	}
}

func behind(c, than protocol.Cursor) bool { return c.Epoch == than.Epoch && c.Seq < than.Seq }

// setDoors takes the doors that the site states.
func (f *follower) setDoors(stream, changes string) {
	f.found = true
	for _, d := range []struct {
		state *doorState
		ref   string
	}{{&f.stream, stream}, {&f.changes, changes}} {
		u, err := door(f.base, d.ref)
		if err != nil {
			f.log.Warn("door is not used", "site", f.base, "reason", err)
		}
		if u != d.state.url {
			*d.state = doorState{url: u, shut: d.state.shut}
		}
	}
}
