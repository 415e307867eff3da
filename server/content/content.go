// Package content defines what a site's doors deliver besides the changes themselves: the bytes of
// pages, archives of the whole site, and what the site offers at one moment. Packages versions,
// archive and server provide it, and package doors delivers it.
package content

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// ErrNoVersion is wrapped by errors of a [Pages] that does not have the
// requested version of a page, or has it no longer.
var ErrNoVersion = errors.New("that version is not stored")

// Pages reads page contents: present versions, earlier versions, and differences.
// Whatever it returns has been checked against the digest in the request. The methods may
// be called by many goroutines at once.
//
// It does not decide who may see a page: its caller does, for each URL. Nor does it know
// which pages the web server refuses: Keeper.Gate of package evidence wraps it in one that does.
type Pages interface {
	// Page returns the bytes of item.URL, if they have item.Digest now and there
	// are at most max of them. The error wraps ErrNoVersion if the page is gone,
	// has changed, or is larger.
	Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error)

	// Delta returns the difference from the version base of a page to that of
	// item, which is the present one, as protocol.CodingDelta. The error wraps
	// ErrNoVersion if either version is missing, or if the delta is not smaller
	// than the page.
	Delta(ctx context.Context, item *protocol.Item, base protocol.Digest) ([]byte, error)

	// Version is like Page, for any version of a page that exists now. It is for readers
	// that the site trusts with earlier versions: the programs of package caller.
	Version(ctx context.Context, item *protocol.Item, max int64) ([]byte, error)

	// Present reports whether item is what its page is now. A caller that caches what
	// Page returned asks before each use: the page may be gone, or have changed.
	Present(item *protocol.Item) bool
}

// An Archived describes an archive of the whole site as it was at Cursor.
type Archived struct {
	Cursor protocol.Cursor
	Items  int
	Length int64           // bytes
	Digest protocol.Digest // of the archive
}

// A Kept is an archive that may be served now, and until when the bytes in it may be sent to anybody; the zero time if nothing says.
type Kept struct {
	Archived
	Until time.Time
}

// Archive makes archives of the whole site, for the form protocol.AsSite.
type Archive interface {
	http.Handler // serves the newest archive, by Range too

	// Latest returns the newest archive that may be given to anybody now, and
	// false if there is none. If a newer one is due, it has it made in the background.
	Latest() (Archived, bool)

	// Within reports whether may is true of every URL in the existing archives.
	// It takes as long as reading all of them.
	Within(may func(url string) bool) bool

	// IsDueSoon reports whether a newer archive is being made, or is about to be.
	IsDueSoon() bool

	// Wait blocks until Latest would return another archive than a, or ctx ends.
	Wait(ctx context.Context, a Archived) error
}

// ErrNotReady is wrapped by the error of an announcement that comes before the
// first scan of the site has ended. Try again in a moment.
var ErrNotReady = errors.New("the first scan of the site has not finished")
