package journal

// The functions below give tests access to the records of the file.

func ItemKey(url string) []byte                         { return itemKey(url) }
func SeqKey(seq uint64) []byte                          { return seqKey(seq) }
func SeqOf(key []byte) uint64                           { return seqOf(key) }
func AppendEntry(key []byte, e Entry) []byte            { return appendEntry(nil, key, e) }
func ParseEntry(key, b []byte) (Entry, error)           { return parseEntry(key, b) }
func StoredParser() func(key, b []byte) (Stored, error) { return storedParser() }
func SealRecord(key, b []byte) []byte                   { return seal(key, b) }

// ReparseMeta reads a record of the state and writes it again.
func ReparseMeta(b []byte) ([]byte, error) {
	m, err := parseMeta(b)
	return appendMeta(nil, m), err
}

// MetaKey is where the state stands.
func MetaKey() []byte { return metaKey }

// MaxNotes is maxNotes.
const MaxNotes = maxNotes
