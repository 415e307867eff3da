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
// An allow-list decides which files are public: those ending in .htm, .html, .xhtml
// and .pdf, and those that match Files.Include. Some files are never public: hidden ones
// (the name, or that of a directory above, begins with a dot), an editor's backup, a
// dump, an output of Parley, a file larger than Files.Max, anything but a regular file,
// a symbolic link that leads out of the root, and a page forbidden to everybody by
// robots.txt or by the page itself (see Features).
//
// A symbolic link to a file within the root is a page of its own. A link to a
// directory within the root is walked like a directory, at most four such links
// deep, and never into one of its own parents. Docroot itself may be or contain
// symbolic links; they are resolved anew by every scan.
//
// Fields must not change once a method has been called. Any number of
// goroutines may call the methods at once.
type Site struct {
	Docroot string // the directory; relative to the working directory
	Base    string // its URL, with a path if it is not a host's root; a last "/" is added

	// Files says which files are published, and where.
	Files struct {
		// Include and Exclude are patterns of file names to publish besides pages,
		// and not to publish; Exclude wins. "*" and "?" stand for parts of a name,
		// "**" for any number of directories, "{a,b}" for either. A pattern without a
		// slash matches names in any directory, one with a slash the whole path below
		// Docroot; one that ends in a slash matches everything below that directory.
		// Exclude may match a directory as well. .well-known is hidden unless a pattern
		// of Include begins with it.
		Include, Exclude []string

		// CleanURLs says that page.html is served at /page. If a public file has that
		// very name, the URL is that file's and not page.html's.
		CleanURLs bool

		// Max is the size in bytes beyond which a file is not published. Zero means 100 MB.
		Max int64

		// Own lists files and directories that Parley writes, such as the manifest
		// and the state. They are not published, nor ever is robots.rdf in Docroot.
		Own []string
	}

	// Robots is the robots.txt to obey, and when.
	Robots struct {
		// File is a file or an http(s) URL. Empty means robots.txt in Docroot, if there
		// is one; with a Base below a path it means the host's, which is fetched. Its
		// rules are matched against the paths of URLs, including the path of Base.
		File string

		// When it changes, newly forbidden URLs are forbidden at once, and newly allowed
		// ones are allowed after Wait, if it is read again unchanged then; zero means
		// 60 s. While robots.txt is missing, cannot be read or has no rule in it, the URLs
		// that it forbade stay forbidden; that is logged as an error, and again after
		// Remind: zero means 24 h.
		Wait, Remind time.Duration
	}

	// Journal is the site's journal: its file stores what robots.txt forbade, for
	// the next process. Nil: a process knows only the rules that it read itself.
	Journal *Journal

	// Hurry, above zero, caps the waits of the site's own: for a file to rest while it
	// is being changed, and between two checks whether the docroot is still the same
	// directory. For tests.
	Hurry time.Duration

	// Features, if not nil, extracts the title, language and so on from a page. Read
	// calls it for HTML and XHTML, with at most the first 2 MiB of the same bytes
	// that it digests, which Features must not keep; no other method calls it. whole
	// says that they are all the bytes. A page with NoIndex is not published. An
	// error means that the page could not be read. Several pages may be read at a time.
	Features func(url string, page []byte, whole bool) (inventory.Features, error)

	// FeaturesVersion is any text that changes whenever Features would return
	// something else for the same bytes: its masks, the version of its rules. After
	// a change the next full scan reads every page once more and stores the new
	// features without reporting a change; a Report counts such pages as Touched.
	// Otherwise a page that was read under other rules would seem to change as a
	// whole at its next edit. If the bytes have changed too by then, the share of
	// changed text is unknown: change the rules first, and edit pages after a scan.
	// Empty is a version of its own, that of all states from before there were
	// versions.
	FeaturesVersion string

	Log *slog.Logger

	once  sync.Once
	files docroot.Site
}

// MaxFile is the size in bytes beyond which a file is not published, unless Site.Files.Max is set.
const MaxFile = docroot.MaxFile

// inside returns the docroot.Site that does the work.
func (s *Site) inside() *docroot.Site {
	s.once.Do(func() {
		f, r := &s.Files, &s.Robots
		s.files.Settings = docroot.Settings{
			Docroot: s.Docroot, Base: s.Base,
			Include: f.Include, Exclude: f.Exclude, CleanURLs: f.CleanURLs, MaxFile: f.Max, Own: f.Own,
			Robots: r.File, RobotsWait: r.Wait, RobotsRemind: r.Remind, Hurry: s.Hurry,
			Features: s.Features, FeaturesVersion: s.FeaturesVersion, Log: s.Log,
		}
		if s.Journal != nil {
			s.files.Settings.Notes = s.Journal
		}
	})
	return &s.files
}

// Check returns what is wrong with the fields, if anything, without reading
// the docroot. The other methods run the same check first.
func (s *Site) Check() error { return s.inside().Check() }

// Scan walks the docroot, as specified by [inventory.Inventory]; it opens no file
// but robots.txt, which every full scan reads again.
//
// Dot directories are not entered; they are reported once, without a URL. A
// scope whose directory does not exist, or is never public, yields nothing. A
// docroot that does not exist or cannot be read ends the walk with an error,
// as does a robots.txt that cannot be read.
func (s *Site) Scan(ctx context.Context, scopes []inventory.Scope) iter.Seq2[inventory.Offer, error] {
	return s.inside().Scan(ctx, scopes)
}

// Read reads the file behind an offer of Scan, as specified by [inventory.Inventory]. A
// file that changes during the read is read again; one that keeps changing is
// returned as Unsettled, and one that the rules forbid by now as LeftOut. The file is
// found by its Place, below the docroot of the current scan, and opened so that no
// symbolic link leads out of it.
func (s *Site) Read(ctx context.Context, o inventory.Offer) (inventory.Offer, error) {
	return s.inside().Read(ctx, o)
}

// Watch reports changes below the docroot, as specified by [inventory.Inventory]. Its
// events come from the operating system; network file systems and some container
// mounts send none, nor do files beyond the system's number of watches: a full scan
// now and then finds the missed changes.
//
// A path is reported once it has been quiet for 15 ms; one that keeps changing must
// be quiet for as long as it has been changing, 2 s at most; an empty file for a
// second. Until then Scan returns it as Unsettled. After 10 s it is reported in
// any case. Everything is dirty at the beginning, when events were lost, when
// robots.txt changes, and when the docroot becomes another directory, which is
// noticed within a second.
//
// It returns nil when ctx has ended, and an error if the system cannot watch files.
func (s *Site) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	return s.inside().Watch(ctx, dirty)
}

// Public reports whether the present rules allow the file at url to be published,
// whether it exists or not; a page that said noindex when it was last read is not
// public. Until robots.txt has been read for the first time nothing is public; later,
// while it cannot be read, its last known rules stay in force.
func (s *Site) Public(url string) bool { return s.inside().Public(url) }

// PublicTo reports whether robots.txt allows a URL that is [Site.Public] to the
// product token name. A name without a group of its own obeys the rules for
// everybody. It is made for PublicTo of doors.Clients.
func (s *Site) PublicTo(name, url string) bool { return s.inside().PublicTo(name, url) }

// Heal sets the time of the file behind an offer that Read returned, as specified by
// [inventory.Healer]. Only the owner of a file, and root, may do that. A file that
// is also found elsewhere, by a symbolic link below the docroot or by another
// name, has one time for two pages, and is left alone.
func (s *Site) Heal(ctx context.Context, o inventory.Offer, to time.Time) (inventory.Offer, error) {
	return s.inside().Heal(ctx, o, to)
}

// Open opens the file behind an offer of Scan, for a reader that needs more than Read
// returns, such as its links. The file is found as Read finds it, so that no
// symbolic link leads out of the docroot. An error that wraps fs.ErrNotExist
// means that it has vanished, or may not be published any more. The content may
// change while it is read.
func (s *Site) Open(ctx context.Context, o inventory.Offer) (io.ReadCloser, error) {
	return s.inside().Open(ctx, o)
}

// OpenPage opens the file behind the URL of a page, in the same way. A page that the
// present rules forbid is not opened: the error wraps fs.ErrNotExist.
func (s *Site) OpenPage(ctx context.Context, url string) (io.ReadCloser, error) {
	return s.inside().OpenPage(ctx, url)
}

// AcceptRobots makes the next full scan accept robots.txt as it is then,
// without the wait, unless it is missing or has no rule in it.
func (s *Site) AcceptRobots() { s.inside().AcceptRobots() }

// RobotsProblem describes what is wrong with robots.txt as last read; the text is empty if
// nothing is. logged reports whether this process has logged it as an error, and lost
// whether the file is missing or has lost its rules, so that a person must decide.
func (s *Site) RobotsProblem() (trouble string, logged, lost bool) { return s.inside().RobotsProblem() }
