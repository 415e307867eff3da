package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// openManifest asks for the manifest. It returns nil where the site says that
// the one that was last taken in still stands.
func (f *follower) openManifest(ctx context.Context, conditional bool) (*http.Response, *protocol.ManifestReader, error) {
	h := f.header()
	h.Set("Accept", protocol.ManifestType+", application/xml;q=0.9, */*;q=0.1")
	if conditional {
		if f.etag != "" {
			h.Set("If-None-Match", f.etag)
		}
		if f.lastModified != "" {
			h.Set("If-Modified-Since", f.lastModified)
		}
	}
	resp, err := f.get(ctx, f.manifestURL, h, stall)
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

// takeManifest emits what the manifest offers as a snapshot, if that is news.
func (f *follower) takeManifest(ctx context.Context) error {
	resp, r, err := f.openManifest(ctx, !f.resync)
	if err != nil {
		return err
	}
	if resp == nil {
		f.tookManifest("", "")
		return nil
	}
	defer resp.Body.Close()
	defer func(begun time.Time) {
		took := time.Since(begun)
		f.spared = time.Now().Add(min(manifestTax*took, max(f.poll, longestWait)))
	}(time.Now())
	etag, lastModified := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")

	s := Step{Door: Manifest, Reset: true}
	skipped := 0 // and told
	for begun := false; ; begun = true {
		rec, err := r.Next()
		if err != nil && err != io.EOF {
			return err
		}
		if !begun || err == io.EOF && s.Reset {
			if news, err := f.isNews(r.Head()); err != nil || !news {
				if err == nil {
					f.tookManifest(etag, lastModified)
				}
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if len(s.Changes) == protocol.MaxBatch {
			n, _ := r.Skipped()
			s.Skipped, skipped = n-skipped, n
			if err := f.emit(s); err != nil {
				return err
			}
			s = Step{Door: Manifest}
		}
		switch t := rec.Gone; {
		case t == nil:
			s.Changes = append(s.Changes, protocol.Change{Op: protocol.Create, Item: rec.Item})
		case !r.Head().Complete: // else absence says it too
			s.Changes = append(s.Changes, protocol.Change{
				Op: protocol.Delete, Item: protocol.Item{URL: t.URL, Length: -1}, At: t.At, Prev: t.Prev})
		}
	}
	head := r.Head()
	if behind(head.Cursor, f.cursor) { // the channel came last
		return fmt.Errorf("manifest stands at %v, before %v", head.Cursor, f.cursor)
	}
	n, why := r.Skipped()
	if n > 0 {
		f.log.Warn("left out of the manifest", "site", f.base, "entries", n, "first", why)
	}
	s.Skipped, s.Cursor, s.Whole = n-skipped, head.Cursor, head.Complete
	f.cursor = head.Cursor
	f.setDoors(head.Stream, head.Changes)
	f.tookManifest(etag, lastModified)
	return f.emit(s)
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
	f.resync = false
}

// isNews reports whether a manifest stands elsewhere than the caller. It is an
// error if it stands before, or where the site does not continue from.
func (f *follower) isNews(head protocol.Manifest) (bool, error) {
	switch {
	case f.cursor.IsZero() || head.Cursor.Epoch != f.cursor.Epoch:
		return true, nil
	case behind(head.Cursor, f.cursor), f.resync && head.Cursor == f.cursor:
		f.pollAt = time.Now().Add(f.nextLook())
		return false, fmt.Errorf("manifest stands at %v, which brings nobody on from %v", head.Cursor, f.cursor)
	}
	f.setDoors(head.Stream, head.Changes)
	return head.Cursor != f.cursor, nil
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
			f.log.Warn("door left alone", "site", f.base, "reason", err)
		}
		if u != d.state.url {
			*d.state = doorState{url: u, shut: d.state.shut}
		}
	}
}

// discover finds the doors without reading the manifest: from the site's
// well-known file, or, where that is silent, from the manifest's beginning.
func (f *follower) discover(ctx context.Context) error {
	text, err := f.getJSON(ctx, f.origin+"/.well-known/parley", stall, maxSmall)
	var site struct{ Base, Manifest, Stream, Changes string }
	if err == nil && json.Unmarshal(text, &site) == nil && (site.Base == f.base || site.Manifest == f.manifestURL) {
		f.setDoors(site.Stream, site.Changes)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	resp, r, err := f.openManifest(ctx, false)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := r.Next(); err != nil && err != io.EOF {
		return err
	}
	f.setDoors(r.Head().Stream, r.Head().Changes)
	return nil
}
