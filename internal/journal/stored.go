package journal

import "fmt"

// A Stored is an entry as it is in the file. What decides whether a page is unchanged can be read without decoding the rest.
type Stored struct {
	URL   string
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
	return r.entry(s.URL, s.has)
}

// A StoredReader reads stored entries one by one.
type StoredReader struct{ rows rows[Stored] }

// Next returns the next entry, and false after the last. An error is final.
func (r *StoredReader) Next() (Stored, bool, error) { return r.rows.next() }

// storedChunk is the size of the buffers to which the fields of stored entries are copied, many to each.
const storedChunk = 16 << 10

// storedParser returns a function that parses the output of appendEntry as far as Stored needs it.
func storedParser() func(key, b []byte) (Stored, error) {
	var chunk []byte
	return func(key, b []byte) (Stored, error) {
		r, has := open(key, b)
		if len(r.b) > cap(chunk)-len(chunk) {
			chunk = make([]byte, 0, max(storedChunk, len(r.b)))
		}
		start := len(chunk)
		chunk = append(chunk, r.b...)
		r.b = chunk[start:len(chunk):len(chunk)]
		s := Stored{URL: urlOf(key), Held: has&hasHeld != 0, Other: has&hasOther != 0, fields: r.b, has: has}
		s.Type = r.mediaType()
		r.skip(has)
		if s.Stamp = r.b; r.bad || has&changeFlags != 0 || s.URL == "" {
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
