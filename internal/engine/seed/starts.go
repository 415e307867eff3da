package seed

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// A Start is a URL to begin with, and the limits of the pages that belong to it, see Starts.
type Start struct {
	URL   string // canonical
	Depth int    // links from a start page, at most, in place of Rules.MaxDepthStatic and MaxDepthDynamic; negative: not stated
	Pages int    // URLs that are stored, at most, in place of Rules.MaxPerSite; 0: not stated
}

// ParseStart reads a URL, which limits may follow: "https://www.example.org/docs/ depth=3 pages=1000".
func ParseStart(text string) (Start, error) {
	s := Start{Depth: -1}
	words := strings.Fields(text)
	if len(words) == 0 {
		words = []string{""}
	}
	var err error
	if s.URL, err = protocol.CanonicalURL("", words[0]); err != nil {
		return s, errors.New("want a URL such as https://www.example.org/")
	}
	s.URL = spelled(s.URL)
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(value)
		switch {
		case name == "depth" && err == nil && n >= 0:
			s.Depth = n
		case name == "pages" && err == nil && n >= 1:
			s.Pages = n
		default:
			return s, fmt.Errorf("%q after a URL: want depth=N, N links from a start page at most, or pages=N, N URLs at most", w)
		}
	}
	return s, nil
}

// limits returns the limits as they are written.
func (s *Start) limits() string {
	var list []string
	if s.Depth >= 0 {
		list = append(list, fmt.Sprintf("depth=%d", s.Depth))
	}
	if s.Pages > 0 {
		list = append(list, fmt.Sprintf("pages=%d", s.Pages))
	}
	return strings.Join(list, " ")
}

// Starts are the start pages of a crawl. Each page of their hosts belongs to one of them: to that in whose directory it is, in the
// longest of these if there are several; or else to the first one of its host. "http" and "https" make no difference, nor does
// "www.", nor the port unless the start page names one. So what belongs together is known from the URLs alone: which links led
// to a page, and in which order, does not matter. A nil *Starts has no limits.
type Starts struct{ at map[place]*Start }

// A place is a host, with its port or without, and a directory; with an empty one it stands for the first start page of the host.
type place struct{ host, dir string }

// NewStarts returns the start pages, nil if none has limits. Start pages in one directory share their limits, and it is an error if
// these differ. perSite is Rules.MaxPerSite: beside start pages with Pages, those of the same host without are limited to so many each, since
// the pages of the others do not count for it.
func NewStarts(list []Start, perSite int) (*Starts, error) {
	s := &Starts{map[place]*Start{}}
	limited, counted := false, map[string]bool{}
	for i := range list {
		is := list[i]
		limited = limited || is.limits() != ""
		at := placeOf(is.URL)
		counted[at.host] = counted[at.host] || is.Pages > 0
		first := s.at[at]
		switch {
		case first == nil:
			s.at[at] = &is
		case is.limits() == "" || is.limits() == first.limits():
		case first.limits() == "":
			first.Depth, first.Pages = is.Depth, is.Pages
		default:
			return nil, fmt.Errorf("%s %s: %s in the same directory has %s: give one of them, since the limits are those of the directory", is.URL, is.limits(), first.URL, first.limits())
		}
		if host := (place{host: at.host}); s.at[host] == nil {
			s.at[host] = s.at[at]
		}
	}
	if !limited {
		return nil, nil
	}
	for at, is := range s.at {
		if counted[at.host] && is.Pages == 0 {
			is.Pages = perSite
		}
	}
	return s, nil
}

// placeOf returns the host of a canonical URL, without "www.", and the directory.
func placeOf(url string) place {
	begin := pathBegin(url)
	path, _, _ := strings.Cut(url[begin:], "?")
	host := strings.TrimPrefix(url[strings.Index(url, "://")+3:begin], "www.")
	return place{host, path[:strings.LastIndexByte(path, '/')+1]}
}

// of returns the start page that a canonical URL belongs to, nil if there is none.
func (s *Starts) of(url string) *Start {
	if s == nil {
		return nil
	}
	at := placeOf(url)
	if s.at[place{host: at.host}] == nil {
		at.host = strings.TrimSuffix(at.host, portOf(url[:pathBegin(url)]))
	}
	for at.dir != "" {
		if start := s.at[at]; start != nil {
			return start
		}
		above := at.dir[:len(at.dir)-1]
		at.dir = above[:strings.LastIndexByte(above, '/')+1]
	}
	return s.at[at]
}

// Parts returns a function that returns the start page that a canonical URL belongs to, and how many URLs may belong to it, or an empty
// string if that is not limited. It is nil if nothing is limited.
func (s *Starts) Parts() func(url string) (start string, most int) {
	if s == nil {
		return nil
	}
	return func(url string) (string, int) {
		if is := s.of(url); is != nil && is.Pages > 0 {
			return is.URL, is.Pages
		}
		return "", 0
	}
}

// On describes the limits on the host of an origin, empty if there are none.
func (s *Starts) On(origin string) string {
	first := s.of(origin + "/")
	if first == nil {
		return ""
	}
	var list []string
	for at, is := range s.at {
		if at.dir != "" && at.host == placeOf(first.URL).host && is.limits() != "" {
			list = append(list, at.dir+" "+is.limits())
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// RedirectDepth returns the depth of a page to which one at a canonical URL and a depth redirects. That is one more link, unless a
// start page only stands elsewhere: with another scheme, with or without "www.", or below the front page of its host.
func RedirectDepth(from, to string, depth int) int {
	to, err := resolve(from, to)
	if depth != 0 || err != nil || placeOf(from).host != placeOf(to).host {
		return depth + 1
	}
	if path := from[pathBegin(from):]; path != "/" && path != to[pathBegin(to):] {
		return depth + 1
	}
	return 0
}
