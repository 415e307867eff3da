package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// A staleError reports an index that is older than what was read before, or that names parts which the site does not
// have. It may be that of a cache, or the site has replaced it since: manifestDoor.take requests it once more.
type staleError struct {
	err    error
	behind bool // the index is of the epoch of the caller's cursor, and before it
}

func (e *staleError) Error() string { return e.err.Error() }
func (e *staleError) Unwrap() error { return e.err }

// stale returns an error if an index is older than what the caller has: it is behind the caller's cursor, or it has
// another epoch and was written before the manifest that was read last.
func (d *manifestDoor) stale(index protocol.Cursor, from fetch.Validators) error {
	behind := behind(index, d.cursor)
	old := behind
	if index.Epoch != d.cursor.Epoch && !d.cursor.IsZero() {
		last, err := http.ParseTime(d.known.LastModified)
		this, err2 := http.ParseTime(from.LastModified)
		old = err == nil && err2 == nil && this.Before(last)
	}
	if old {
		return &staleError{fmt.Errorf("index has cursor %v, and is older than that of our cursor, %v", index, d.cursor), behind}
	}
	return nil
}

// readParts emits the changes after the caller's cursor, if the change parts have them, and else the whole site. All
// parts that this needs are stored before the first is read; until the last is read they remain stored, so that a later
// call fetches none of them again.
func (d *manifestDoor) readParts(ctx context.Context, index protocol.Manifest, from fetch.Validators) error {
	w, whole := d.want, index.Whole
	if w.asksSite() {
		return errors.New("answer to a query is a manifest in parts")
	}
	s := &steps{door: d, part: !d.resync && !d.doubtful && whole.Covers(d.cursor), complete: true}
	var need []*protocol.Part
	after, lists := uint64(0), [][]protocol.Part{whole.Changed, whole.Parts} // the change parts first, since a site replaces them soonest
	if s.part {
		after, lists = d.cursor.Seq, lists[:1]
	}
	left := w.src.MaxManifest
	for _, list := range lists {
		for i := range list {
			if p := &list[i]; p.Seq > after || !s.part {
				need, left = append(need, p), left-p.Length
			}
		}
	}
	if left < 0 {
		return fmt.Errorf("parts of a manifest: more than %d bytes: %w", w.src.MaxManifest, protocol.ErrLimit)
	}
	if err := d.spool.open(need); err != nil {
		return fmt.Errorf("store the parts of a manifest: %w", err)
	}
	for _, p := range need {
		if d.spool.has(p) {
			continue
		}
		if err := d.fetchPart(ctx, p); err != nil {
			return err
		}
		d.schedule.gained()
	}
	o := protocol.ManifestOptions{Origin: w.origin, MaxBytes: w.src.MaxManifest}
	var records iter.Seq2[protocol.Record, error]
	if s.part {
		records = whole.ChangesAfter(d.cursor, d.spool.read, o)
	} else {
		records = whole.Snapshot(d.spool.read, o)
	}
	for rec, err := range records {
		if err != nil {
			clear(d.spool.checked) // what is stored may have been damaged
			return err
		}
		if err := s.add(&rec, 0); err != nil {
			return err
		}
	}
	if err := d.spool.remove(); err != nil {
		w.src.Log.Warn("stored parts of a manifest are not removed", "reason", err)
	}
	return s.end(index, from, 0)
}

// fetchPart fetches a part into the spool. A part that the site does not have is a staleError.
func (d *manifestDoor) fetchPart(ctx context.Context, p *protocol.Part) error {
	h := d.want.header()
	h.Set("Accept", protocol.ManifestType)
	h.Set("Accept-Encoding", "zstd, gzip")
	d.spool.fetched++
	resp, err := d.want.get(ctx, p.URL, h, stall)
	if err == nil {
		err = d.spool.add(p, resp.Body, resp.Header.Get("Content-Encoding"))
		resp.Body.Close()
	} else if refuses(err) { // of the part, which says nothing about the manifest
		err = fmt.Errorf("part %.200s is missing: %v, %w", p.URL, err, protocol.ErrPart)
	}
	if errors.Is(err, protocol.ErrPart) {
		return &staleError{err: err}
	}
	return err
}
