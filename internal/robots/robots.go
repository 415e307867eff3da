// Package robots reads robots.txt as RFC 9309 says. Both sides use it: a site
// for what it must not publish, a crawler for its manners.
package robots

import "time"

// MaxBytes is how much of a file is read (RFC 9309, 2.5): 500 KiB.
const MaxBytes = 500 << 10

// A File is a parsed robots.txt. The zero File allows everything. It is
// immutable and safe for concurrent use.
type File struct{}

// Parse reads a file of any content: what cannot be understood is passed over. It reads at most MaxBytes.
func Parse(b []byte) *File { panic("unwritten") }

// ForStatus is what a crawler must assume after asking for robots.txt: the
// parsed body after 2xx, everything allowed after 3xx (redirects followed too
// far) and 4xx, nothing allowed after 5xx and where there was no answer (status 0).
func ForStatus(status int, body []byte) *File { panic("unwritten") }

// Allowed reports whether agent (a product token such as "parley") may fetch
// path, which begins with "/" and has its query if any, percent-encoded or not.
// /robots.txt itself is always allowed.
func (f *File) Allowed(agent, path string) bool { panic("unwritten") }

// CrawlDelay returns the Crawl-delay of agent's group, 0 if there is none.
func (f *File) CrawlDelay(agent string) time.Duration { panic("unwritten") }

// Lines returns the values of all lines outside of groups with the given
// name, such as "sitemap" or "manifest", in order, whatever their case.
func (f *File) Lines(name string) []string { panic("unwritten") }
