package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// maxURLs bounds the URLs of all sources of a Catalog, not counting other sites. They are kept in memory with
// their entries: about 35 bytes more than the URL each, and twice that while a source is read again.
const maxURLs = 2_000_000

// maxArena bounds the bytes of one source's URLs and records: a key has four bytes for the offset.
const maxArena = 1 << 31

// A sourceSnapshot is the content of a source when it was read, each URL once, in the order of protocol.Compare. It
// is immutable.
type sourceSnapshot struct {
	version string // of the source, see Source
	arena   string // the URL and the record of each entry
	keys    []key
	left    leftOuts
}

// A key locates an entry of a sourceSnapshot.
type key struct {
	at    uint32 // in the arena
	size  uint16 // of the URL
	depth uint16
}

func (r *sourceSnapshot) url(i int) string {
	k := r.keys[i]
	return r.arena[k.at : k.at+uint32(k.size)]
}

// entry returns entry i, and its record.
func (r *sourceSnapshot) entry(i int) (e Entry, record string) {
	k := r.keys[i]
	rest := r.arena[k.at+uint32(k.size):]
	e, n := cutRecord(rest)
	return e, rest[:n]
}

// compareAt orders keys as protocol.Compare orders URLs.
func (r *sourceSnapshot) compareAt(a, b key) int {
	if c := cmp.Compare(a.depth, b.depth); c != 0 {
		return c
	}
	return strings.Compare(r.arena[a.at:a.at+uint32(a.size)], r.arena[b.at:b.at+uint32(b.size)])
}

// Why an entry is left out, beside the reasons of server.Site. Commands group by these strings.
const (
	leftOther     = "another site"          // not below the base URL
	leftNotURL    = "not a URL"             // or not one that can be published
	leftLongURL   = "URL too long"          // more than protocol.MaxURL bytes
	leftRobots    = "robots.txt"            // forbidden to everybody
	leftExcluded  = "excluded"              // a pattern of Exclude matches
	leftOwn       = "own output"            // the manifest, the doors, robots.txt
	leftNoIndex   = "noindex"               // the page, or its headers, ask for it
	leftRedirects = "redirects"             // to another URL
	leftLarge     = "too large"             // more bytes than Fetch.MaxBytes
	leftGone      = "not found"             // with a partial source, so that it may still exist
	leftUnlinked  = "not reachable by link" // see Reachable
)

// maxLeft bounds the left-out entries that are remembered one by one.
const maxLeft = 1000

// leftOuts are left-out entries without a URL of this site: the first of them, and how many more for each
// reason.
type leftOuts struct {
	first []leftOut
	more  map[string]int
}

type leftOut struct {
	line      int
	what, why string
}

func (l *leftOuts) add(line int, what, why string) {
	if len(l.first) < maxLeft {
		l.first = append(l.first, leftOut{line, strings.Clone(what[:min(len(what), 200)]), why})
		return
	}
	if l.more == nil {
		l.more = make(map[string]int)
	}
	l.more[why]++
}

// place returns the location of an entry, for people.
func (l leftOut) place(source string) string {
	if l.line > 0 {
		source = fmt.Sprintf("%s:%d", source, l.line)
	}
	if l.what != "" {
		source += " " + oneLine(l.what, 200)
	}
	return source
}

// A builder builds a sourceSnapshot.
type builder struct {
	base  string
	room  int // how many URLs there may be in this snapshot
	most  int // how many in all sources
	arena strings.Builder
	buf   []byte
	r     sourceSnapshot
}

// add adds an entry. It returns an error if there are too many.
func (b *builder) add(e Entry) error {
	if e.Bad != "" {
		b.r.left.add(e.Line, e.URL, e.Bad)
		return nil
	}
	if len(e.URL) > protocol.MaxURL {
		b.r.left.add(e.Line, e.URL, leftLongURL)
		return nil
	}
	url, err := protocol.CanonicalURL(b.base, e.URL)
	switch {
	case err != nil:
		b.r.left.add(e.Line, e.URL, leftNotURL)
		return nil
	case !strings.HasPrefix(url, b.base):
		b.r.left.add(e.Line, url, leftOther)
		return nil
	}
	if len(b.r.keys) >= b.room {
		return fmt.Errorf("more than %d URLs, the limit for all sources of a site together", b.most)
	}
	e.clean(url)
	b.buf = appendRecord(append(b.buf[:0], url...), &e)
	if b.arena.Len()+len(b.buf) > maxArena {
		return fmt.Errorf("more than %d bytes of URLs and titles", maxArena)
	}
	b.r.keys = append(b.r.keys, key{uint32(b.arena.Len()), uint16(len(url)), uint16(protocol.Depth(url))})
	b.arena.Write(b.buf)
	return nil
}

// end returns the snapshot. Of entries with the same URL the last counts.
func (b *builder) end(version string) *sourceSnapshot {
	r := &b.r
	r.version, r.arena = version, b.arena.String()
	slices.SortFunc(r.keys, func(x, y key) int {
		return cmp.Or(r.compareAt(x, y), cmp.Compare(y.at, x.at))
	})
	r.keys = slices.CompactFunc(r.keys, func(x, y key) bool { return r.compareAt(x, y) == 0 })
	return r
}

// A merge walks several snapshots as one. Where several list a URL, the last of them counts.
type merge struct {
	readings []*sourceSnapshot
	at       []int
}

func newMerge(list []*sourceSnapshot) *merge { return &merge{list, make([]int, len(list))} }

// next returns the next URL with its snapshot and index, and false after the last.
func (m *merge) next() (url string, r *sourceSnapshot, i int, ok bool) {
	best := -1
	for s, x := range m.readings {
		if m.at[s] >= len(x.keys) {
			continue
		}
		if best >= 0 && protocol.Compare(x.url(m.at[s]), url) > 0 {
			continue
		}
		best, url = s, x.url(m.at[s])
	}
	if best < 0 {
		return "", nil, 0, false
	}
	r, i = m.readings[best], m.at[best]
	for s, x := range m.readings {
		if m.at[s] < len(x.keys) && x.url(m.at[s]) == url {
			m.at[s]++
		}
	}
	return url, r, i, true
}
