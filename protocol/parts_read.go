package protocol

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Snapshot yields every item of the site in the order of [Compare]. The last pair has an error if something is
// wrong, and then nothing of what was yielded may be used: absence means gone only after the last item without an error.
// The error wraps ErrTruncated if the items are not as many as the index says.
//
// Open returns the content of a part, which is used until the next call. It is called once for each part, for the
// change parts first. The content is checked, and nothing is yielded of a part that is not as the index names it
// ([ErrPart]), nor anything before all change parts are read. In memory are the change parts and one page part.
//
// The limits in o are of all parts together. Parts are the site's own output, so that an unusable entry, which a
// [ManifestReader] skips, is an error.
func (w *Whole) Snapshot(open func(*Part) ([]byte, error), o ManifestOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		n := 0
		err := w.snapshot(open, o, func(rec Record) bool {
			n++
			return yield(rec, nil)
		})
		if err == nil && n != w.Items {
			err = fmt.Errorf("%w: %d items, not %d", ErrTruncated, n, w.Items)
		}
		if err != nil && err != errStop {
			yield(Record{}, fmt.Errorf("read the parts of a manifest: %w", err))
		}
	}
}

// errStop says that the caller wants nothing more.
var errStop = errors.New("stop")

func (w *Whole) snapshot(open func(*Part) ([]byte, error), o ManifestOptions, yield func(Record) bool) error {
	if most := cmp.Or(max(o.MaxItems, 0), maxItemsDefault); w.Items > most {
		return fmt.Errorf("%d items, more than %d: %w", w.Items, most, ErrLimit)
	}
	left := cmp.Or(max(o.MaxBytes, 0), maxBytesDefault)
	for _, list := range [][]Part{w.Parts, w.Changed} {
		for i := range list {
			if left -= list[i].Length; left < 0 {
				return fmt.Errorf("parts of too many bytes: %w", ErrLimit)
			}
		}
	}
	changes, err := touched(w.Changed, open, o)
	if err != nil {
		return err
	}
	// A page part speaks of the URLs from its first item up to the first item of the next one, the first part
	// also of those before.
	speaks := uint64(0) // seq of the part that speaks of the current URL
	if len(w.Parts) > 0 {
		speaks = w.Parts[0].Seq
	}
	// before yields the items that were touched later than their part, up to a URL; "" means all.
	before := func(url string) bool {
		for len(changes) > 0 && (url == "" || Compare(changes[0].url(), url) < 0) {
			if c := changes[0]; c.seq > speaks && c.Gone == nil && !yield(c.Record) {
				return false
			}
			changes = changes[1:]
		}
		return true
	}
	last := ""
	for i := range w.Parts {
		p := &w.Parts[i]
		err := p.read(open, o, func(rec Record) error {
			switch url := rec.Item.URL; {
			case rec.Gone != nil:
				return fmt.Errorf("tombstone of %.200s in a page part", rec.Gone.URL)
			case last != "" && Compare(last, url) >= 0:
				return fmt.Errorf("item %.200s is out of order after %.200s", url, last)
			case !before(url):
				return errStop
			default:
				last, speaks = url, p.Seq
			}
			if len(changes) > 0 && changes[0].url() == last {
				c := changes[0]
				changes = changes[1:]
				if c.seq > p.Seq {
					if rec = c.Record; rec.Gone != nil {
						return nil
					}
				}
			}
			if !yield(rec) {
				return errStop
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if !before("") {
		return errStop
	}
	return nil
}

// ChangesAfter yields every URL that was touched after the cursor, once, as it is at w.Cursor: the items first,
// then the tombstones, both in the order of [Compare]. It may yield URLs that were last touched before. It opens,
// as Snapshot does, the change parts that end after the cursor, and yields an error alone unless all of them
// are right and cover the cursor (see [Whole.Covers]).
func (w *Whole) ChangesAfter(after Cursor, open func(*Part) ([]byte, error), o ManifestOptions) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if !w.Covers(after) {
			yield(Record{}, fmt.Errorf("read the change parts of a manifest: they do not lead from %s to %s", after, w.Cursor))
			return
		}
		parts := w.Changed
		for len(parts) > 0 && parts[0].Seq <= after.Seq {
			parts = parts[1:]
		}
		changes, err := touched(parts, open, o)
		if err != nil {
			yield(Record{}, fmt.Errorf("read the change parts of a manifest: %w", err))
			return
		}
		for _, gone := range []bool{false, true} {
			for _, c := range changes {
				if (c.Gone != nil) == gone && !yield(c.Record, nil) {
					return
				}
			}
		}
	}
}

// A touch is an entry of a change part.
type touch struct {
	Record
	seq uint64 // of the part
}

func (t *touch) url() string {
	if t.Gone != nil {
		return t.Gone.URL
	}
	return t.Item.URL
}

// touched returns, for every URL in the change parts, its entry in the last of them, in the order of Compare.
func touched(parts []Part, open func(*Part) ([]byte, error), o ManifestOptions) ([]*touch, error) {
	var all []*touch
	for i := range parts {
		p := &parts[i]
		if err := p.read(open, o, func(rec Record) error {
			all = append(all, &touch{rec, p.Seq})
			return nil
		}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b *touch) int { return cmp.Or(Compare(a.url(), b.url()), cmp.Compare(b.seq, a.seq)) })
	var twice *touch
	kept := slices.CompactFunc(all, func(a, b *touch) bool {
		same := a.url() == b.url()
		if same && a.seq == b.seq {
			twice = a
		}
		return same
	})
	if twice != nil {
		return nil, fmt.Errorf("url %.200s twice in the change part of %d", twice.url(), twice.seq)
	}
	return kept, nil
}

// read calls yield for every entry of the part, in the order of the part, up to the first error.
func (p *Part) read(open func(*Part) ([]byte, error), o ManifestOptions, yield func(Record) error) error {
	b, err := open(p)
	if err != nil {
		return err
	}
	if err := p.Check(b); err != nil {
		return err
	}
	o.URL, o.MaxItems, o.MaxBytes = p.URL, 0, 0
	r := NewManifestReader(bytes.NewReader(b), o)
	for n, items := 0, 0; ; n++ {
		rec, err := r.Next()
		if err != nil && err != io.EOF {
			return err
		}
		if bad := p.usable(r); bad != nil {
			return fmt.Errorf("part %.200s: %w", p.URL, bad)
		}
		if err == io.EOF {
			if head := r.Head(); n != p.Items || items != head.Items {
				return fmt.Errorf("part %.200s: %w: %d entries with %d items, not %d with %d", p.URL, ErrTruncated, n, items, p.Items, head.Items)
			}
			return nil
		}
		if rec.Gone == nil {
			items++
		}
		if err := yield(rec); err != nil {
			if err != errStop {
				err = fmt.Errorf("part %.200s: %w", p.URL, err)
			}
			return err
		}
	}
}

// usable refuses a part that is another manifest, or of which an entry cannot be read.
func (p *Part) usable(r *ManifestReader) error {
	if h := &r.channel.head; h.Whole != nil || h.Complete || !h.Cursor.IsZero() {
		return errors.New("it is a manifest of its own, not a part")
	}
	if n, first := r.Skipped(); n > 0 {
		return first[0]
	}
	return nil
}
