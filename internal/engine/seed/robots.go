package seed

import (
	"fmt"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
)

// A RobotsAnswer is the result of fetching a site's robots.txt, after redirects:
// at most five, also to other sites (RFC 9309, 2.3.1.2). After more of them its
// status is that of a redirect.
type RobotsAnswer struct {
	// Status is that of the last response, 0 if there was none.
	Status int

	// Body is the last file that was fetched; used with a status of 2xx, and
	// while robots.txt cannot be fetched.
	Body []byte

	// Since is when robots.txt first could not be fetched; used with
	// a status of 5xx, 429 or 0. The zero time means now.
	Since time.Time
}

// A Special is the URL of a source of a site.
type Special struct {
	Kind SourceKind
	URL  string

	// Declared means that robots.txt names it. Otherwise it is the usual URL of such a source.
	Declared bool
}

// A SourceKind is the kind of a source.
type SourceKind string

// The kinds of sources.
const (
	Sitemap  SourceKind = "sitemap"
	Manifest SourceKind = "manifest"
)

const (
	// unreachable is how long a site whose robots.txt cannot be fetched is left alone
	// (RFC 9309, 2.3.1.4). After that the last fetched file applies, if there is one.
	unreachable = 30 * 24 * time.Hour

	// robotsAge is how long a robots.txt is cached (RFC 9309, 2.4).
	robotsAge = 24 * time.Hour

	robotsRetry = time.Minute // doubled with each failure

	maxSpecials = 100 // of each kind, in a robots.txt
)

// A rulesInForce is a robots.txt in force.
type rulesInForce struct {
	file   *robots.File
	silent string
	body   string // the text of file
}

// SetRobots puts a robots.txt into force, as RFC 9309 (2.3.1) requires: after 2xx
// the file applies; after 3xx and 4xx everything is allowed; after 429, 5xx and
// no response the site is silent, and the last file's rules still forbid.
// After 30 days of that the last file is in force again, or everything is allowed
// if there never was one.
//
// It reports whether other pages may be allowed or forbidden than before, so that
// known pages must be admitted again. That holds for the first file, too, unless it
// is empty.
func (s *Seeder) SetRobots(origin string, a RobotsAnswer, now time.Time) (changed bool) {
	st := s.ours(origin)
	old := st.force.Load()
	f := &rulesInForce{}
	switch had := a.Status >= 200 && a.Status < 300; {
	case had:
		f.body = string(a.Body)
	case !silences(a.Status):
	case !a.Since.IsZero() && now.Sub(a.Since) >= unreachable:
		f.body = string(a.Body)
	default:
		f.silent = "robots.txt could not be fetched"
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

// silences reports whether a status of robots.txt means that no page may be fetched.
func silences(status int) bool { return status < 200 || status == 429 || status >= 500 }

// inForce returns the robots.txt in force on a site, nil if it is not known.
func (s *Seeder) inForce(origin string) *rulesInForce {
	s.begin()
	if st := s.lookup(origin); st != nil {
		return st.force.Load()
	}
	return nil
}

// Delay returns the Crawl-delay of a site, 0 if it states none.
func (s *Seeder) Delay(origin string) time.Duration {
	if f := s.inForce(origin); f != nil {
		return f.file.CrawlDelay(s.agent)
	}
	return 0
}

// RobotsAgain returns when to fetch robots.txt again after a response with status;
// fails is the number of failures in a row, including this one.
func RobotsAgain(status, fails int) time.Duration {
	if !silences(status) {
		return robotsAge
	}
	return min(robotsRetry<<min(max(fails-1, 0), 11), robotsAge)
}

// Specials returns the sources of a site to poll: for each kind those that its robots.txt
// declares or, if there are none, the usual URL; nothing while the site is silent. URLs
// that robots.txt forbids are left out. Declared sources may be of other origins: the
// caller must be polite to these.
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
			if err != nil || len(u) > s.rules.Load().limits.url {
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
