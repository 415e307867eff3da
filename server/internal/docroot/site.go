// Package docroot scans the files of a site: it walks them in the order of their URLs, reads them, sets their
// mtimes, and watches for changes. A [Site] is an inventory.Inventory and an inventory.Healer. Which files
// may be published is decided by package public, and by robots.txt, which is read here.
package docroot

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/inventory"
)

// A Site is the files of a docroot, seen as the pages of a site.
type Site struct {
	Settings Settings

	once  sync.Once
	bad   error // result of Check
	urls  urlMap
	names public.Names

	version []byte // of FeaturesVersion: see versioned

	settling settling // files that are being changed, as far as Watch knows

	robots robots.Keeper

	trees   trees     // the open docroot, for scans and readers
	noIndex noIndexed // pages that said noindex

	mu  sync.Mutex
	own map[string]bool // places of our own outputs; guarded by mu
}

// Settings are the fields of a server.Site.
type Settings struct {
	Docroot, Base            string
	Include, Exclude         []string
	CleanURLs                bool
	Robots                   string
	RobotsWait, RobotsRemind time.Duration
	Notes                    robots.Notes // stores what robots.txt forbade; nil means nowhere
	Hurry                    time.Duration
	MaxFile                  int64
	Own                      []string
	Features                 func(url string, page []byte, whole bool) (inventory.Features, error)
	FeaturesVersion          string
	Log                      *slog.Logger
}

// Why a file is left out, apart from its name. Commands group by these strings.
const (
	leftRobots    = "robots.txt"            // forbidden to everybody
	leftRules     = "robots.txt itself"     // of the host: crawlers fetch it by themselves, and it is no page
	leftNoIndex   = "noindex"               // requested by the page itself
	leftTooLarge  = "too large"             // more bytes than MaxFile
	leftOutside   = "leads out of the root" // a symbolic link
	leftDangling  = "dangling link"         // a symbolic link to nothing, or to itself
	leftLoop      = "link to its own parent"
	leftNested    = "links nested too deep"
	leftIrregular = "not a regular file"    // a pipe, a socket, a device
	leftLongURL   = "URL too long"          // more than protocol.MaxURL bytes
	leftSameURL   = "same URL as another: " // followed by the name of the one that is offered
)

// MaxFile is the largest file that is published, in bytes, unless the settings say otherwise.
const MaxFile = 100_000_000

// Check returns an error if the settings are invalid. The other methods call it first.
func (s *Site) Check() error {
	s.once.Do(func() { s.bad = s.prepare() })
	return s.bad
}

func (s *Site) prepare() (err error) {
	if s.Settings.Docroot == "" {
		return errors.New("site: no docroot")
	}
	if s.urls, err = newURLMap(s.Settings.Base, s.Settings.CleanURLs); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	if s.names, err = public.ParseNames(s.Settings.Include, s.Settings.Exclude); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	s.prepareVersion()
	s.prepareRobots()
	s.settling.hurry, s.trees.docroot = s.Settings.Hurry, s.Settings.Docroot
	if s.Settings.MaxFile < 0 {
		return fmt.Errorf("site: negative file size limit: %d bytes", s.Settings.MaxFile)
	}
	return nil
}

func (s *Site) maxFile() int64 {
	if s.Settings.MaxFile > 0 {
		return s.Settings.MaxFile
	}
	return MaxFile
}

// Public reports whether url is that of a file that the present rules allow to be published.
func (s *Site) Public(url string) bool {
	return len(s.publicPlaces(url)) > 0
}

// publicPlaces returns the publishable files that a URL may stand for, the likeliest first.
func (s *Site) publicPlaces(url string) []string {
	if s.Check() != nil {
		return nil
	}
	if s.noIndex.has(url) {
		return nil
	}
	rules := s.robots.Known()
	if rules == nil {
		return nil
	}
	places := s.urls.places(url)
	return slices.DeleteFunc(places, func(place string) bool { return s.left(rules, place, url) != "" })
}

// left returns why rules forbid the file at place, or the empty string.
func (s *Site) left(rules *robots.Rules, place, url string) string {
	if left := s.names.Place(place); left != "" {
		return left
	}
	_, name := splitPlace(place)
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
	case !s.allowed(rules, name, url):
		return leftRobots
	}
	return ""
}

// everybody is the user agent that no robots.txt names.
const everybody = "*"

// allowed checks a file's URL against robots.txt, and also the URL that its name gives if that differs:
// "/private/index.html" is written for what is published as "/private/", and a web server answers at both.
func (s *Site) allowed(rules *robots.Rules, name, url string) bool {
	return s.allowedTo(everybody, rules, name, url)
}

func (s *Site) allowedTo(agent string, rules *robots.Rules, name, url string) bool {
	slash := strings.LastIndexByte(url, '/') + 1
	if url[slash:] == name {
		return rules.Allowed(agent, s.urls.path(url))
	}
	named := url[:slash] + escapeName(name)
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

// findOwn determines which places are our own outputs.
func (s *Site) findOwn(t *tree) {
	own, dirs := make(map[string]bool), make(map[string]string)
	for _, name := range s.Settings.Own { // which need not exist
		abs, err := filepath.Abs(name)
		dir := filepath.Dir(abs)
		real, ok := dirs[dir]
		if !ok && err == nil {
			if real, _, err = follow("", dir); err != nil {
				real = ""
			}
			dirs[dir] = real
		}
		if place, below := t.inside(filepath.Join(real, filepath.Base(abs))); real != "" && below {
			own[filepath.ToSlash(place)] = true
		}
	}
	s.mu.Lock()
	s.own = own
	s.mu.Unlock()
}

func (s *Site) log() *slog.Logger {
	return cmp.Or(s.Settings.Log, slog.New(slog.DiscardHandler))
}
