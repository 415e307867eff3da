package journal

import (
	"github.com/parleyweb/parley/protocol"
)

// The functions below give tests access to the records of the file.

func ItemKey(url string) []byte                          { return itemKey(url) }
func SeqKey(seq uint64) []byte                           { return seqKey(seq) }
func AppendEntry(key []byte, e Entry) []byte             { return appendEntry(nil, key, e) }
func AppendChange(c protocol.Change) []byte              { return appendChange(nil, c) }
func ParseEntry(key, b []byte) (Entry, error)            { return parseEntry(key, b) }
func StoredParser() func(key, b []byte) (Stored, error)  { return storedParser() }
func ParseChange(key, b []byte) (protocol.Change, error) { return parseChange(key, b) }
func SealRecord(key, b []byte) []byte                    { return seal(key, b) }

// ReparseMeta reads a record of the state and writes it again.
func ReparseMeta(b []byte) ([]byte, error) {
	m, err := parseMeta(b)
	return appendMeta(nil, m), err
}

// MetaKey is where the state stands.
func MetaKey() []byte { return metaKey }
