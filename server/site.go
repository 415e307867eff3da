package server

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/inventory"
)

// A Site is a document root, published at a base URL. It is an [inventory.Inventory].
//
// What is public is an allow-list: files ending in .htm, .html, .xhtml and
// .pdf, and what Include names. Nothing makes public what is hidden (its name,
// or that of a directory above it, begins with a dot), an editor's backup, a
// dump, an output of Parley, larger than MaxFile, no regular file, a symbolic
// link that leads out of the root, or forbidden by robots.txt to everybody, or
// by the page itself (see Features).
//
// A symbolic link to a file within the root is a page of its own. One to a
// directory within the root is walked like a directory, at most four such
// links deep, and never into one of its own parents. Docroot itself may be or
// contain symbolic links; where they lead is found out at every look.
//
// Fields are not to be changed once a method has been called. Any number of
// goroutines may call the methods at once.
type Site struct {
	Docroot string // the directory; relative to the working directory
	Base    string // its URL, with a path if it is not a host's root; a last "/" is added

	// Include and Exclude are patterns of file names to publish besides pages,
	// and not to publish; Exclude wins. "*" and "?" stand for parts of a name,
	// "**" for any number of directories, "{a,b}" for either. A pattern
	// without a slash is matched against names wherever they stand, one with a
	// slash against the whole path below Docroot; with a slash at its end it
	// means all that lies below. Exclude may match a directory as well.
	// .well-known is hidden unless a pattern of Include begins with it.
	Include, Exclude []string

	// CleanURLs says that page.html is served at /page. A file of that very
	// name, if it is public, has the URL before page.html.
	CleanURLs bool

	// Robots is the robots.txt that counts: a file or an http(s) URL. Empty
	// means robots.txt in Docroot, if there is one; with a Base below a path it
	// means that of the host, which is fetched. Its rules are matched against
	// the paths of URLs, that of Base included.
	//
	// When it changes, what it forbids counts at once, and what it allows newly
	// after RobotsWait, if it is read again unchanged then; zero means 60 s.
	// What it forbade stays forbidden while it is missing, cannot be read or has
	// no rule in it, which is logged as an error, again after RobotsRemind: zero
	// means 24 h.
	Robots                   string
	RobotsWait, RobotsRemind time.Duration

	// Journal is what is published: in its file is stored what robots.txt
	// forbade, so that the next process knows. Nil: it knows what it reads itself.
	Journal *Journal

	// Hurry, above zero, bounds the waits of the site's own: for a file to rest while it
	// is being changed, between two looks at whether the
	// docroot is the same directory. For tests.
	Hurry time.Duration

	// MaxFile is the size in bytes beyond which a file is not published. Zero means 100 MB.
	MaxFile int64

	// Own lists files and directories that Parley writes, such as the manifest
	// and the state. They are not published. robots.rdf in Docroot never is.
	Own []string

	// Features, if not nil, says what a page says of itself. Read calls it for
	// HTML and XHTML, with the first 2 MiB, at most, of the very bytes that
	// it digests, which it must not keep; nobody else does. Whole says that
	// they are all. A page with NoIndex is not published. An error means that
	// the page could not be read.
	Features func(url string, page []byte, whole bool) (inventory.Features, error)

	// FeaturesVersion is any text that is another whenever Features would say
	// something else of the same bytes: the masks that it goes by, the version
	// of its rules. The next look at everything then reads every page once
	// more, stores what it says now, and tells nothing of it; a Report counts
	// such pages as Touched. Without that, a page that was read by other rules
	// would seem to change as a whole when it changes next. Where the bytes
	// have changed too by then, it cannot be known how much: change the rules
	// first, and the pages after a look. Empty is a version of its own, that of
	// every state from before there were versions.
	FeaturesVersion string

	Log *slog.Logger

	once  sync.Once
	bad   error // what is wrong with the fields
	urls  urlMap
	names public.Names

	version []byte // of FeaturesVersion: see versioned

	settling settling // what is being changed, as far as Watch knows

	robots robots.Keeper

	mu      sync.Mutex      // guards what follows
	present *tree           // of the look that is going on
	brief   *tree           // of those who read pages between looks; nil if there is none
	looks   int             // that have begun
	own     map[string]bool // places of own outputs

	noIndex map[string]string // the stamps of pages that said noindex, by URL
}

// Why a file is left out, beside its name. Commands group by these words.
const (
	leftRobots    = "robots.txt"            // forbidden to everybody
	leftRules     = "robots.txt itself"     // of the host: rules that each crawler asks for when it needs them, and no page
	leftNoIndex   = "noindex"               // the page itself asks for it
	leftTooLarge  = "too large"             // more bytes than MaxFile
	leftOutside   = "leads out of the root" // a symbolic link
	leftDangling  = "dangling link"         // a symbolic link to nothing, or to itself
	leftLoop      = "link to its own parent"
	leftNested    = "links nested too deep"
	leftIrregular = "not a regular file"    // a pipe, a socket, a device
	leftLongURL   = "URL too long"          // more than protocol.MaxURL bytes
	leftSameURL   = "same URL as another: " // and the name of the one that is offered
)

// MaxFile is how large a file may be to be published, in bytes, unless Site.MaxFile says otherwise.
const MaxFile = 100_000_000

// Check reports what is wrong with the fields, if anything, without looking at
// the docroot. The other methods do the same first.
func (s *Site) Check() error {
	s.once.Do(func() { s.bad = s.prepare() })
	return s.bad
}

func (s *Site) prepare() (err error) {
	if s.Docroot == "" {
		return errors.New("site: no docroot")
	}
	if s.urls, err = newURLMap(s.Base, s.CleanURLs); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	if s.names, err = public.ParseNames(s.Include, s.Exclude); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	s.prepareVersion()
	s.prepareRobots()
	s.settling.hurry = s.Hurry
	if s.MaxFile < 0 {
		return fmt.Errorf("site: largest file of %d bytes", s.MaxFile)
	}
	return nil
}

func (s *Site) maxFile() int64 {
	if s.MaxFile > 0 {
		return s.MaxFile
	}
	return MaxFile
}

// Public reports whether url is that of a file which the present rules allow
// to be published, whether there is one or not; that of a page which said
// noindex when it was last read is not public. Until robots.txt could be
// read for the first time nothing is public; later, while it cannot be read,
// what it said last goes on to count.
func (s *Site) Public(url string) bool {
	return len(s.publicPlaces(url)) > 0
}

// publicPlaces returns the files that may stand behind a URL and may be
// published, the likeliest first.
func (s *Site) publicPlaces(url string) []string {
	if s.Check() != nil {
		return nil
	}
	s.mu.Lock()
	_, noIndex := s.noIndex[url]
	s.mu.Unlock()
	if noIndex {
		return nil
	}
	rules := s.robots.Known()
	if rules == nil {
		return nil
	}
	places := s.urls.places(url)
	return slices.DeleteFunc(places, func(place string) bool { return s.left(rules, place, url) != "" })
}

// left returns why rules forbid what stands at place, or the empty string.
func (s *Site) left(rules *robots.Rules, place, url string) string {
	if left := s.names.Place(place); left != "" {
		return left
	}
	s.mu.Lock()
	own := ownOutput(s.own, place)
	s.mu.Unlock()
	switch {
	case own:
		return public.Own
	case len(url) > protocol.MaxURL:
		return leftLongURL
	case s.urls.path(url) == "/robots.txt":
		return leftRules
	case !s.allowed(rules, place, url):
		return leftRobots
	}
	return ""
}

// everybody is the agent that no robots.txt names.
const everybody = "*"

// allowed asks robots.txt about the URL of a file, and about the one that its
// name gives where that is another: "/private/index.html" is written for what
// is published as "/private/", and a web server answers at both.
func (s *Site) allowed(rules *robots.Rules, place, url string) bool {
	return s.allowedTo(everybody, rules, place, url)
}

func (s *Site) allowedTo(agent string, rules *robots.Rules, place, url string) bool {
	_, name := splitPlace(place)
	if s.urls.tail(name) == name {
		return rules.Allowed(agent, s.urls.path(url))
	}
	named := url[:strings.LastIndexByte(url, '/')+1] + escapeName(name)
	return rules.Allowed(agent, s.urls.path(url), s.urls.path(named))
}

// ownOutput reports whether a place, or a directory above it, is in own.
func ownOutput(own map[string]bool, place string) bool {
	for len(own) > 0 && place != "" {
		if own[place] {
			return true
		}
		place, _ = splitPlace(place)
	}
	return false
}

// findOwn finds out which places are our own outputs.
func (s *Site) findOwn(t *tree) {
	own := make(map[string]bool)
	for _, name := range s.Own {
		if place, ok := t.placeOf(name); ok {
			own[place] = true
		}
	}
	s.mu.Lock()
	s.own = own
	s.mu.Unlock()
}

func (s *Site) log() *slog.Logger { return orDiscard(s.Log) }
