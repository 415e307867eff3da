// Package seed is the role that admits: whether a URL that somebody named may
// be asked for at all, and by which name it is known.
package seed

// A Verdict says what becomes of a URL, and which rule said so.
type Verdict struct {
	URL     string // canonical: by it the page is known
	Fetch   string // what to ask for, if that differs (a session id that the site wants); else empty
	OK      bool
	Rule    string // for people, such as "robots.txt: Disallow: /private/" or "depth 17 over 15"
	LogOnly bool   // known, not asked for: images, archives
	Dynamic bool
}
