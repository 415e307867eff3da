package journal

import "errors"

// Notes are small values that those who read the journal keep in its file, so
// that they are put away and restored together with it: how far a sender has
// read, what an output looked like when it was written. They outlive epochs.
// Keys are "OWNER/...", so that nobody meets another's.

// MaxNote bounds a key and its value together, in bytes.
const MaxNote = 64 << 10

// Note returns the value noted under key, nil if there is none.
func (j *Journal) Note(key string) ([]byte, error) { return nil, errors.New("not built yet") }

// EachNote calls f with every note whose key begins with prefix, in the order
// of keys, as they were at one moment. f may keep what it is given, must not
// use the journal, and ends the walk by returning an error, which EachNote returns.
func (j *Journal) EachNote(prefix string, f func(key string, value []byte) error) error {
	return errors.New("not built yet")
}

// SetNotes notes values in one durable transaction; a nil value forgets its key.
func (j *Journal) SetNotes(notes map[string][]byte) error { return errors.New("not built yet") }

// Revision is a number that differs from every earlier one of this file
// whenever a View would show other entries or tombstones: by what is told, and
// by what is not, such as an importance. Notes do not move it.
func (j *Journal) Revision() uint64 { return 0 }
