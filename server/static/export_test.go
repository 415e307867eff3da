package static

import "strings"

// What tests name beside what everybody does.

func (x *Robots) Merge(text []byte) ([]byte, error) { return x.merge(text) }

// URL returns where the feed is found that says most, and nothing if no feed
// is wanted. Search engines take RSS and Atom in a Sitemap line of robots.txt.
func (f *Feeds) URL() string {
	if all := f.forms(); len(all) > 0 {
		return f.urlOf(all[0].path)
	}
	return ""
}

// Propose returns the lines that a robots.txt with this text lacks, as they are to be added.
func (r *Robots) Propose(text []byte) string {
	return strings.Join(r.missing(text), "\n")
}
