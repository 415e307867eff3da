package protocol

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// The bounds of a manifest in parts. A writer keeps all of them. A reader refuses an index or a part that is
// beyond MaxIndex, MaxPart, maxParts, MaxChanged or MaxChangedItems.
const (
	MaxIndex = 16 << 20 // bytes of an index
	MaxPart  = 16 << 20 // bytes of a part
	maxParts = 100_000  // parts of one index, page parts and change parts together

	MaxChanged      = 64 << 20 // bytes of all change parts of an index together
	MaxChangedItems = 1 << 18  // items and tombstones of all change parts of an index together

	MaxPartItems = 16_384  // items of a page part
	MaxPartBytes = 8 << 20 // bytes of a page part, unless a single item is longer
)

// ErrPart is wrapped by errors that say that the content of a part is not the one that its index names: it is
// cut short, or was replaced since.
var ErrPart = errors.New("not the content that the index names")

// A Part is one file of a manifest in parts.
type Part struct {
	URL    string `json:"-"` // canonical, below the directory of the manifest
	After  uint64 // of a change part: it has every URL touched in (After, Seq]
	Seq    uint64 // the part is as of this change
	Items  int    // number of entries: items and tombstones
	Length int64  // in bytes, without content coding
	Digest Digest // of these bytes
}

// Check returns an error that wraps ErrPart unless b is the content of the part.
func (p *Part) Check(b []byte) error {
	switch {
	case int64(len(b)) != p.Length:
		return fmt.Errorf("part %.200s: %w: %d bytes, not %d", p.URL, ErrPart, len(b), p.Length)
	case Sum(b) != p.Digest:
		return fmt.Errorf("part %.200s: %w: digest %s, not %s", p.URL, ErrPart, Sum(b), p.Digest)
	}
	return nil
}

// A Whole is what an index says of the whole site, which its parts describe.
type Whole struct {
	Cursor  Cursor // a reader that has processed the parts continues from here
	Items   int    // number of items of the site
	Parts   []Part // page parts, in the order of their items
	Changed []Part // change parts, oldest first
}

// Covers reports whether the change parts have everything that was touched after the cursor.
func (w *Whole) Covers(after Cursor) bool {
	if after.Epoch != w.Cursor.Epoch || after.Seq > w.Cursor.Seq {
		return false
	}
	return after.Seq == w.Cursor.Seq || len(w.Changed) > 0 && w.Changed[0].After <= after.Seq
}

// BeginsPart reports whether a URL begins a page part wherever it stands: one of 4,096 does. A page part also
// ends before an item with which it would exceed MaxPartItems or MaxPartBytes.
func BeginsPart(url string) bool {
	sum := sha256.Sum256([]byte(url))
	return binary.BigEndian.Uint64(sum[:])%4096 == 0
}

// check refuses what cannot be used. index is the URL of the manifest.
func (w *Whole) check(index string) error {
	dir, err := CanonicalURL(index, "./")
	if err != nil {
		return err
	}
	if !validEpoch(w.Cursor.Epoch) {
		return fmt.Errorf("invalid epoch %.80q", w.Cursor.Epoch)
	}
	if n := len(w.Parts) + len(w.Changed); n > maxParts {
		return fmt.Errorf("%d parts, more than %d: %w", n, maxParts, ErrLimit)
	}
	urls := resolver{}
	least := w.Cursor.Seq // seq of a page part
	named, changed, bytes := 0, 0, int64(0)
	one := func(p *Part) error {
		if err := urls.check(p.URL); err != nil {
			return err
		}
		switch {
		case !strings.HasPrefix(p.URL, dir):
			return fmt.Errorf("part %.200s is not below %.200s", p.URL, dir)
		case p.URL == index:
			return fmt.Errorf("part %.200s is the index itself", p.URL)
		case p.Length > MaxPart:
			return fmt.Errorf("part %.200s of %d bytes, more than %d: %w", p.URL, p.Length, MaxPart, ErrLimit)
		case p.Items < 1 || int64(p.Items) > p.Length:
			return fmt.Errorf("part %.200s of %d entries in %d bytes", p.URL, p.Items, p.Length)
		case p.Digest.IsZero():
			return fmt.Errorf("part %.200s has no digest", p.URL)
		case p.Seq > w.Cursor.Seq:
			return fmt.Errorf("part %.200s is as of change %d, after the cursor %s", p.URL, p.Seq, w.Cursor)
		}
		return nil
	}
	for i := range w.Parts {
		if err := one(&w.Parts[i]); err != nil {
			return err
		}
		least = min(least, w.Parts[i].Seq)
		named += w.Parts[i].Items
	}
	for i := range w.Changed {
		p := &w.Changed[i]
		if err := one(p); err != nil {
			return err
		}
		switch {
		case p.After >= p.Seq:
			return fmt.Errorf("change part %.200s begins after change %d and ends at %d", p.URL, p.After, p.Seq)
		case i == 0 && p.After > least:
			return fmt.Errorf("change parts begin after change %d, and a page part is as of %d", p.After, least)
		case i > 0 && p.After != w.Changed[i-1].Seq:
			return fmt.Errorf("change part %.200s begins after change %d, not after %d", p.URL, p.After, w.Changed[i-1].Seq)
		}
		changed += p.Items
		bytes += p.Length
	}
	switch n := len(w.Changed); {
	case n == 0 && least < w.Cursor.Seq:
		return fmt.Errorf("no change parts, and a page part is as of change %d, before the cursor %s", least, w.Cursor)
	case n > 0 && w.Changed[n-1].Seq != w.Cursor.Seq:
		return fmt.Errorf("change parts end at change %d, not at the cursor %s", w.Changed[n-1].Seq, w.Cursor)
	case bytes > MaxChanged || changed > MaxChangedItems:
		return fmt.Errorf("change parts of %d bytes and %d entries, more than %d and %d: %w", bytes, changed, MaxChanged, MaxChangedItems, ErrLimit)
	case w.Items < 0 || w.Items > math.MaxInt32 || w.Items > named+changed || w.Items < named-changed:
		return fmt.Errorf("%d items of the site, with %d in page parts and %d entries in change parts", w.Items, named, changed)
	case len(w.Parts) == 0 && w.Items > 0:
		return fmt.Errorf("%d items of the site without a page part", w.Items)
	}
	return nil
}
