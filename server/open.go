package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/stat"
)

// A Journal is what a site has told, in order, and what it offers now, in one
// file. It implements protocol.Log. One process at a time can have it open.
type Journal = journal.Journal

// ErrHeld is wrapped by the error of [OpenJournal] when another process has
// the journal. Ask it: see [Ask].
var ErrHeld = journal.ErrHeld

// ErrOtherSite is wrapped by the error of [OpenJournal] when the journal is
// that of another base URL.
var ErrOtherSite = errors.New("journal is that of another site")

// JournalOptions says how a site's journal is opened.
type JournalOptions struct {
	// Base is the site's base URL, ending in "/".
	Base string

	// Published is where the manifest stands that was published last: a file,
	// or an http URL. Empty means that it is not looked at.
	Published string

	// Manifest is the file that the Publisher's Snapshot writes. Beside it
	// stands a mark of the journal that told last. Empty means that no mark is compared.
	Manifest string

	Retention  time.Duration // how long changes are remembered; zero means 90 days
	MaxChanges int           // how many are at most; zero means 1,000,000

	// Wait is how long to wait for another process to put the journal away.
	// Less than a second counts as one: whoever asks whether there is a holder
	// has the file for a moment.
	Wait time.Duration

	HTTP *http.Client // for Published; only its Transport is used; nil means http.DefaultTransport
	Log  *slog.Logger
	Now  func() time.Time
}

// OpenJournal opens or creates a site's journal, and makes sure that it
// continues what was published.
//
// If the published manifest stands at another epoch than the journal, or
// beyond its head, then the journal was lost, or restored from an older copy,
// and its next numbers have been used already for something else. So a new
// epoch begins, with the items of the manifest, as far as it is whole and of
// this site: what has not changed since keeps its modified and its digest. It
// does too if the manifest is there but cannot be read. No manifest at all
// is no reason to.
//
// A page of which nothing but that manifest knows, and which no look finds,
// may have gone, or may be one that was announced. If it has no digest, as no
// file has, or Publisher.Announces is set, then it is held until it is
// announced again or as gone, or until somebody calls
// [Publisher.AcceptDeletions]; no grace period ends that.
//
// The error wraps ErrHeld when another process has the journal.
func OpenJournal(ctx context.Context, path string, o JournalOptions) (*Journal, error) {
	j, err := journal.Open(path, &journal.Options{Retention: o.Retention, MaxChanges: o.MaxChanges, Wait: max(o.Wait, time.Second), Now: o.Now})
	if err != nil {
		return nil, err
	}
	err = checkSite(j, o.Base)
	mark := ""
	if err == nil && o.Manifest != "" {
		mark, err = readMark(o.Manifest)
	}
	if err == nil && (o.Published != "" || mark != "") {
		err = checkEpoch(ctx, j, o, mark == "" || mark == j.Mark())
	}
	if err == nil && mark != "" {
		err = j.SetMark(mark)
	}
	if err != nil {
		j.Close()
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return j, nil
}

// checkSite looks at one URL that is present: all of a journal are of one site.
func checkSite(j *Journal, base string) error {
	v, err := j.View()
	if err != nil {
		return err
	}
	defer v.Close()
	for e, err := range v.Entries() {
		if err == nil && !strings.HasPrefix(e.Item.URL, base) {
			err = fmt.Errorf("%w: it has %s, which is not below %s", ErrOtherSite, e.Item.URL, base)
		}
		return err
	}
	return nil
}

// checkEpoch begins a new epoch unless the journal continues what was
// published. marked says that it is the journal which told last.
func checkEpoch(ctx context.Context, j *Journal, o JournalOptions, marked bool) error {
	log := orDiscard(o.Log)
	fresh := !j.Whole() && j.Len() == 0
	f, err := openPublished(ctx, o) // nothing published is a file that does not exist
	var head protocol.Manifest
	if err == nil {
		defer f.Close()
		head, err = readHead(f, o.Base+"robots.rdf")
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		if !fresh && !marked {
			log.Warn("a new epoch begins: it was another state that told last", "state", j.Head().String())
			return j.Renew(ctx, nil)
		}
		if !fresh {
			log.Warn("there is no published manifest to compare the state with", "published", o.Published)
		}
		return nil
	case err != nil && fresh:
		log.Warn("published manifest cannot be read: nothing of it is kept", "published", o.Published, "err", err)
		return nil
	case err != nil:
		log.Warn("published manifest cannot be read: a new epoch begins, to be safe", "published", o.Published, "err", err)
		return j.Renew(ctx, nil)
	}
	at, was := j.Head(), head.Cursor
	continues := !was.IsZero() && was.Epoch == at.Epoch && was.Seq <= at.Seq
	switch {
	case !marked && !fresh && (continues || was.IsZero()):
		log.Warn("a new epoch begins: it was another state that told last", "published", was.String(), "state", at.String())
		return j.Renew(ctx, nil)
	case was.IsZero() && !fresh:
		return nil // it states nothing that could be continued wrongly
	case continues:
		return nil
	}
	if head.Complete {
		err := j.Renew(ctx, itemsOf(f, o.Base, o.now()))
		if err == nil {
			log.Info("a new epoch begins with what was published", "published", was.String(), "state", at.String(), "items", head.Items)
			// A whole manifest is a whole description: what the next look finds
			// to be otherwise is a change, and is told.
			return j.Settle()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.Warn("items of the published manifest cannot be kept", "published", o.Published, "err", err)
	}
	if fresh {
		return nil
	}
	log.Warn("a new epoch begins: the state does not continue what was published", "published", was.String(), "state", at.String())
	return j.Renew(ctx, nil)
}

func (o *JournalOptions) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// itemsOf yields the items of a manifest from its beginning. It ends with an
// error where they are not what a journal of this site can hold. Nothing was
// modified after now: what was said so once would be said for ever, since
// modified never goes back.
func itemsOf(f io.ReadSeeker, base string, now time.Time) iter.Seq2[protocol.Item, error] {
	return func(yield func(protocol.Item, error) bool) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			yield(protocol.Item{}, err)
			return
		}
		last := ""
		r := protocol.NewManifestReader(f, protocol.ManifestOptions{URL: base + "robots.rdf"})
		for {
			rec, err := r.Next()
			switch n, _ := r.Skipped(); {
			case err == io.EOF && n == 0:
				return
			case err == io.EOF:
				err = fmt.Errorf("%d entries are of no use", n)
			case err != nil:
			case rec.Gone != nil:
				continue
			case !strings.HasPrefix(rec.Item.URL, base):
				err = fmt.Errorf("%s is not below %s", rec.Item.URL, base)
			case last != "" && protocol.Compare(last, rec.Item.URL) >= 0:
				err = fmt.Errorf("%s is out of order", rec.Item.URL)
			}
			if rec.Item.Modified.After(now) {
				rec.Item.Modified = now
			}
			if last = rec.Item.URL; !yield(rec.Item, err) || err != nil {
				return
			}
		}
	}
}

// MaxManifest is how large a published manifest may be to be fetched, in bytes.
const MaxManifest = 4 << 30

// openPublished opens the published manifest. Its error wraps fs.ErrNotExist
// where there surely is none.
func openPublished(ctx context.Context, o JournalOptions) (*os.File, error) {
	if !strings.HasPrefix(o.Published, "http://") && !strings.HasPrefix(o.Published, "https://") {
		return stat.Open(o.Published)
	}
	c := fetch.Client{Agent: "parley", Timeout: 10 * time.Minute, MaxBytes: MaxManifest, Redirects: 10}
	if o.HTTP != nil {
		c.Transport = o.HTTP.Transport
	}
	a, err := c.Get(ctx, o.Published, nil)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	switch {
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		return nil, fs.ErrNotExist
	case !a.OK():
		return nil, errors.New("server answered " + a.Says())
	}
	f, err := os.CreateTemp("", "parley-published-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // where the system lets an open file go; else it stays for its cleaner
	if _, err = io.Copy(f, a); err == nil && a.Cut() {
		err = errors.New("more than 4 GiB")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
