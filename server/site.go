package server

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/parleyweb/parley/server/internal/docroot"
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
	files docroot.Site
}

// MaxFile is how large a file may be to be published, in bytes, unless Site.MaxFile says otherwise.
const MaxFile = docroot.MaxFile

// inside is what does the work of the site.
func (s *Site) inside() *docroot.Site {
	s.once.Do(func() {
		s.files.Settings = docroot.Settings{
			Docroot: s.Docroot, Base: s.Base,
			Include: s.Include, Exclude: s.Exclude, CleanURLs: s.CleanURLs,
			Robots: s.Robots, RobotsWait: s.RobotsWait, RobotsRemind: s.RobotsRemind,
			Hurry: s.Hurry, MaxFile: s.MaxFile, Own: s.Own,
			Features: s.Features, FeaturesVersion: s.FeaturesVersion, Log: s.Log,
		}
		if s.Journal != nil {
			s.files.Settings.Notes = s.Journal
		}
	})
	return &s.files
}

// Check reports what is wrong with the fields, if anything, without looking at
// the docroot. The other methods do the same first.
func (s *Site) Check() error { return s.inside().Check() }

// Look walks the docroot, as [inventory.Inventory] says; no file is opened but
// robots.txt, which is read again by every look at everything.
//
// Dot directories are not entered; they are reported once, without a URL. A
// scope whose directory does not exist, or is never public, yields nothing. A
// docroot that does not exist or cannot be read ends the walk with an error,
// as does a robots.txt that cannot be read.
func (s *Site) Look(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return s.inside().Look(ctx, scopes)
}

// Read reads the file behind an offer of Look, as [inventory.Inventory] says. A file
// that changes while it is read is read again; one that goes on changing comes
// back as Unsettled. What the rules forbid by now comes back as LeftOut. It is
// found by its Place, below the docroot of the look that is going on, and
// opened so that no symbolic link leads out of it.
func (s *Site) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	return s.inside().Read(ctx, o)
}

// Watch tells of changes below the docroot, as [inventory.Inventory] says. Its events
// come from the operating system; network file systems and some container
// mounts give none, and files beyond the system's number of watches neither:
// a look at everything now and then finds what was missed.
//
// A path is told of once it has rested for 15 ms; one that keeps changing must
// rest for as long as it has been changing, 2 s at most; an empty file for a
// second. Until then Look gives it as Unsettled. After 10 s it is told of in
// any case. Everything is dirty at the beginning, when events were lost, when
// robots.txt changes, and when the docroot becomes another directory, which is
// noticed within a second.
//
// It returns nil when ctx has ended, and an error if the system offers no
// watching.
func (s *Site) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	return s.inside().Watch(ctx, dirty)
}

// Public reports whether url is that of a file which the present rules allow
// to be published, whether there is one or not; that of a page which said
// noindex when it was last read is not public. Until robots.txt could be
// read for the first time nothing is public; later, while it cannot be read,
// what it said last goes on to count.
func (s *Site) Public(url string) bool { return s.inside().Public(url) }

// PublicTo reports whether robots.txt allows a URL that is [Site.Public] to
// whom it has a group of rules for: the product token name. Whoever has none
// goes by the rules for everybody. It is made for [Notifier].PublicTo.
func (s *Site) PublicTo(name, url string) bool { return s.inside().PublicTo(name, url) }

// Heal sets the time of the file behind an offer that Read returned, as
// [inventory.Healer] says. Only the owner of a file, and root, may do that. A file that
// is also found elsewhere, by a symbolic link below the docroot or by another
// name, has one time for two pages, and is left alone.
func (s *Site) Heal(ctx context.Context, o inventory.Offer, to time.Time) (inventory.Offer, error) {
	return s.inside().Heal(ctx, o, to)
}

// Open opens what Look offered, to be read by whoever wants more of it than
// Read tells, such as its links. It is found as Read finds it, so that no
// symbolic link leads out of the docroot. An error that wraps fs.ErrNotExist
// means that it has vanished, or may not be published as things are now. The
// content may change while it is read.
func (s *Site) Open(ctx context.Context, o inventory.Offer) (io.ReadCloser, error) {
	return s.inside().Open(ctx, o)
}

// OpenPage opens the file behind the URL of a page, in the same way. What the
// present rules forbid is not opened: the error wraps fs.ErrNotExist.
func (s *Site) OpenPage(ctx context.Context, url string) (io.ReadCloser, error) {
	return s.inside().OpenPage(ctx, url)
}

// AcceptRobots makes the next look at everything accept robots.txt as it is
// then, without the wait, unless it is missing or has no rule in it.
func (s *Site) AcceptRobots() { s.inside().AcceptRobots() }

// RobotsTrouble says what a person should know of robots.txt as it was read
// last, and whether this process has logged it as an error; empty if all is well.
func (s *Site) RobotsTrouble() (trouble string, said bool) { return s.inside().RobotsTrouble() }

// RobotsLost reports whether robots.txt, as it was read last, is missing or has
// lost its rules, so that a person is needed.
func (s *Site) RobotsLost() bool { return s.inside().RobotsLost() }
