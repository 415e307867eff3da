package seed

import (
	"fmt"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// A RobotsAnswer is what came of asking for a site's robots.txt, redirects
// followed: at most five, to other sites too (RFC 9309, 2.3.1.2). After more
// of them its status is that of a redirect.
type RobotsAnswer struct {
	// Status is of the last answer, 0 if there was none.
	Status int

	// Body is the last file that was had; of use with a status of 2xx, and
	// where robots.txt cannot be had any more.
	Body []byte

	// Since is when it began that robots.txt cannot be had; of use with
	// a status of 5xx, 429 or 0. The zero time means now.
	Since time.Time
}

// A Special is something that tells of a site's pages.
type Special struct {
	Kind SourceKind
	URL  string

	// Declared: robots.txt names it. Else it is where such a thing may be.
	Declared bool
}

// A SourceKind is what a Special is, or what a link of a page leads to.
type SourceKind string

// The kinds of sources.
const (
	Sitemap  SourceKind = "sitemap"
	Manifest SourceKind = "manifest"
	Feed     SourceKind = "feed"
)

const (
	// Unreachable is how long a site is left alone whose robots.txt cannot be had
	// (RFC 9309, 2.3.1.4). After that the last one that was had counts, if there is one.
	Unreachable = 30 * 24 * time.Hour

	// robotsAge is how long a robots.txt is believed (RFC 9309, 2.4).
	robotsAge = 24 * time.Hour

	robotsRetry = time.Minute // doubled with each answer that was none

	maxSpecials = 100 // that a robots.txt may declare of each kind
)

// A force is a robots.txt in force.
type force struct {
	file   *robots.File
	silent string
	body   string // that file is of
}

// SetRobots puts a robots.txt into force, as RFC 9309 (2.3.1) says: after 2xx
// what it says; after 3xx and 4xx everything is allowed; after 429, 5xx and
// where there was no answer the site is silent, and what the last file forbade
// stays forbidden. After 30 days of that the last file is in force again, or
// everything is allowed if there never was one.
//
// It reports whether pages may be allowed that were not, or the other way round:
// those that are known are to be admitted again. That is so after the first
// file, too, if it says anything.
func (s *Seeder) SetRobots(origin string, a RobotsAnswer, now time.Time) (changed bool) {
	st := s.ours(origin)
	old := st.force.Load()
	f := &force{}
	switch had := a.Status >= 200 && a.Status < 300; {
	case had:
		f.body = string(a.Body)
	case !silences(a.Status):
	case !a.Since.IsZero() && now.Sub(a.Since) >= Unreachable:
		f.body = string(a.Body)
	default:
		f.silent = "robots.txt could not be had"
		if a.Status != 0 {
			f.silent += fmt.Sprintf(": status %d", a.Status)
		}
		f.body = string(a.Body)
		if old != nil && len(a.Body) == 0 {
			f.body = old.body
		}
	}
	if old != nil && old.body == f.body {
		f.file = old.file
	} else {
		f.file = robots.Parse([]byte(f.body))
	}
	if old == nil || *old != *f {
		st.force.Store(f)
	}
	return f.body != "" && old == nil || old != nil && old.body != f.body
}

// silences reports whether a status means that nothing may be asked for.
func silences(status int) bool { return status < 200 || status == 429 || status >= 500 }

// Delay returns the Crawl-delay of a site, 0 if it states none.
func (s *Seeder) Delay(origin string) time.Duration {
	s.begin()
	if st := s.lookup(origin); st != nil {
		if f := st.force.Load(); f != nil {
			return f.file.CrawlDelay(s.agent)
		}
	}
	return 0
}

// RobotsAgain is how long after an answer robots.txt is asked for again:
// fails are the answers in a row, that one included, by which it could not be had.
func RobotsAgain(status, fails int) time.Duration {
	if !silences(status) {
		return robotsAge
	}
	return min(robotsRetry<<min(max(fails-1, 0), 11), robotsAge)
}

// Specials returns what to poll of a site: what its robots.txt declares, and
// where that declares nothing the places where such things are; nothing while the site
// is silent. What robots.txt itself forbids is not among it. What is declared
// may be of other origins: whoever asks for it must be polite to these.
func (s *Seeder) Specials(origin string) []Special {
	s.begin()
	st := s.lookup(origin)
	if st == nil {
		return nil
	}
	in := st.force.Load()
	if in == nil || in.silent != "" {
		return nil
	}
	f := in.file
	var l []Special
	add := func(k SourceKind, url string, declared bool) {
		for _, o := range l {
			if o.URL == url {
				return
			}
		}
		if rest, ok := strings.CutPrefix(url, st.origin+"/"); ok && !f.Allowed(s.agent, "/"+rest) {
			return
		}
		l = append(l, Special{k, url, declared})
	}
	for _, k := range []struct {
		kind      SourceKind
		candidate string
	}{{Manifest, "/robots.rdf"}, {Sitemap, "/sitemap.xml"}} {
		n := 0
		for _, line := range f.Lines(string(k.kind)) {
			u, err := protocol.CanonicalURL(st.origin+"/robots.txt", line)
			if err != nil || len(u) > s.c.maxURL {
				continue
			}
			add(k.kind, u, true)
			if n++; n == maxSpecials {
				break
			}
		}
		if n == 0 {
			add(k.kind, st.origin+k.candidate, false)
		}
	}
	return l
}
