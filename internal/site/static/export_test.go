package static

import (
	"hash/crc32"
	"strings"
)

// Names that only tests use.

// Begin makes one of n groups of URLs begin a range of the sitemap.
func (s *Sitemap) Begin(n uint32) {
	s.begins = func(group string) bool { return crc32.ChecksumIEEE([]byte(group))%n == 0 }
}

func (x *Robots) Merge(text []byte) ([]byte, error) { return x.merge(text) }

// URL returns the URL of the most detailed feed, or "" without feeds. Search engines accept RSS and Atom in a
// Sitemap line of robots.txt.
func (f *Feeds) URL() string {
	if all := f.forms(); len(all) > 0 {
		return f.urlOf(all[0].path)
	}
	return ""
}

// Propose returns the lines to add to a robots.txt with this text.
func (r *Robots) Propose(text []byte) string {
	return strings.Join(r.missing(text), "\n")
}
