package journal

import "fmt"

// A Stored is an entry as it is in the file. What decides whether a page is unchanged can be read without decoding the rest.
// Its bytes are overwritten once its StoredReader has returned maxAhead more.
type Stored struct {
	URL   []byte
	Type  string // see protocol.Item
	Stamp []byte // see Entry
	Held  bool   // Entry.Held is set
	Other bool   // Entry.Other is set

	fields []byte // as open leaves them
	has    flags
}

// Entry decodes the whole entry.
func (s *Stored) Entry() (Entry, error) {
	r := record{b: s.fields}
	return r.entry(string(s.URL), s.has)
}

// A StoredReader reads stored entries one by one.
type StoredReader struct{ rows rows[Stored] }

// Next returns the next entry, and false after the last. An error is final.
func (r *StoredReader) Next() (Stored, bool, error) { return r.rows.next() }

// storedMost is the size of rows, in bytes, above which their checksum is verified before they are copied: a damaged record may state
// any length.
const storedMost = 16 << 10

// storedParser returns a function that parses the output of appendEntry as far as Stored needs it. It copies key and record
// into one buffer of several, which are used in turn: one checksum of both takes less time (BenchmarkStored).
func storedParser() func(key, b []byte) (Stored, error) {
	var buffers [2 * maxAhead][]byte
	next := 0
	return func(key, b []byte) (Stored, error) {
		if len(key)+len(b) > storedMost {
			if _, ok := unseal(key, b); !ok {
				return Stored{}, fmt.Errorf("item %.200q is %w", urlOf(key), ErrDamaged)
			}
		}
		row := append(append(buffers[next][:0], key...), b...)
		buffers[next] = row
		next = (next + 1) % len(buffers)
		body, ok := unseal(nil, row)
		r, has := parseVersion(body[min(len(key), len(body)):], ok)
		s := Stored{URL: row[min(len(key), 2):len(key)], Held: has&hasHeld != 0, Other: has&hasOther != 0, fields: r.b, has: has}
		s.Type = r.mediaType()
		r.skip(has)
		if s.Stamp = r.b; r.bad || has&changeFlags != 0 || len(s.URL) == 0 {
			return Stored{}, fmt.Errorf("item %.200q is %w", s.URL, ErrDamaged)
		}
		return s, nil
	}
}

// skip skips the fields of an entry between its media type and its stamp.
func (r *record) skip(has flags) {
	number := func(f flags) {
		if has&f != 0 {
			r.uvarint()
		}
	}
	digest := func(f flags) {
		if has&f != 0 {
			r.take(32)
		}
	}
	text := func(f flags) {
		if has&f != 0 {
			r.take(r.uvarint())
		}
	}
	number(hasModified)
	number(hasSpan)
	number(hasLength)
	digest(hasDigest)
	text(hasTitle)
	digest(hasText)
	text(hasLanguage)
	text(hasCanonical)
	if has&hasImportance != 0 {
		r.take(1)
	}
	number(hasHeld)
	text(hasSketch)
	number(hasNewest)
	number(hasOther)
}
