package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/stat"
	"github.com/parleyweb/parley/server/manifest"
)

// A Journal holds the changes that a site has reported, in order, and what it offers
// now, in one file. It implements protocol.Log. Only one process at a time can have it open.
type Journal = journal.Journal

// ErrHeld is wrapped by the error of [OpenJournal] when another process has
// the journal open. Send requests to that process: see [Ask].
var ErrHeld = journal.ErrHeld

// errOtherSite is wrapped by the error of [OpenJournal] when the journal belongs
// to another base URL.
var errOtherSite = errors.New("journal belongs to another site")

// Errors that [OpenJournal] wraps if JournalOptions.Strict is set.
var (
	// ErrUnusable means that a published manifest exists, or may exist, and that its items cannot be used.
	ErrUnusable = errors.New("published manifest cannot be used")

	// ErrDiverged means that a journal that is not new is of another site, or not at the cursor of the published manifest.
	ErrDiverged = errors.New("journal is not at the cursor of the published manifest")
)

// JournalOptions says how a site's journal is opened.
type JournalOptions struct {
	// Base is the site's base URL, ending in "/".
	Base string

	// Former are base URLs that the site had before, which differ from Base in scheme, host or port alone. A journal
	// of one of them, or a published manifest where the journal is new, is taken over: all pages move to Base, with
	// their dates, digests and stamps, and a new epoch begins. In a journal of Base they have no effect.
	Former []string

	// Published is where the last published manifest is: a file, or an http URL.
	// Empty means that the journal is not compared with it.
	Published string

	// Manifest is the file that the Publisher's Snapshot writes. Beside it is the mark of
	// the journal that last reported changes. Empty means that no mark is compared.
	Manifest string

	// Strict is for a journal that is kept for one deployment, and rebuilt from the published manifest for the next. It
	// makes it an error, which wraps ErrUnusable, if the items of an existing manifest cannot be used, and one that
	// wraps ErrDiverged if the journal has other changes than those published, or is of another site.
	Strict bool

	Retention  time.Duration // how long changes are kept; zero means 90 days
	MaxChanges int           // how many changes are kept at most; zero means 1,000,000

	// Wait is how long to wait for another process to close the journal. Less than a
	// second counts as one: a process that checks for a holder opens the file for a moment.
	Wait time.Duration

	// ReadOnly opens a journal that exists, to look at it: nothing is written, and Published and Manifest must be empty.
	ReadOnly bool

	HTTP *http.Client // for Published; only its Transport is used; nil means http.DefaultTransport
	Log  *slog.Logger
	Now  func() time.Time
}

// OpenJournal opens or creates a site's journal, and makes sure that it
// continues what was published.
//
// If the published manifest's cursor has another epoch than the journal, or is
// beyond its head, the journal was lost, or restored from an older copy, and its
// next numbers have already been used for other changes. So a new epoch begins,
// with the items of the manifest, if it is complete and of this site: pages that
// have not changed since keep their modified and their digest. A new epoch also
// begins if the manifest exists but cannot be read, but not if there is none.
//
// A page that only that manifest knows, and that no scan finds, may have been
// deleted, or may have been announced. If it has no digest (a file always has), or
// Pages.Announces is set, it is held until it is announced, as present or as
// gone, or until [Publisher.AcceptDeletions] is called; no grace period ends that.
//
// The error wraps ErrHeld when another process has the journal open.
func OpenJournal(ctx context.Context, path string, o JournalOptions) (*Journal, error) {
	j, err := journal.Open(path, &journal.Options{Retention: o.Retention, MaxChanges: o.MaxChanges, Wait: max(o.Wait, time.Second), ReadOnly: o.ReadOnly, Now: o.Now})
	if err != nil {
		return nil, err
	}
	base, err := baseOf(j, &o)
	if o.Strict && errors.Is(err, errOtherSite) {
		err = fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	mark := ""
	if err == nil && o.Manifest != "" {
		mark, err = readMark(o.Manifest)
	}
	if err == nil && (o.Published != "" || mark != "") {
		err = checkEpoch(ctx, j, o, base, mark == "" || mark == j.Mark())
	}
	if err == nil && mark != "" {
		err = j.SetMark(mark)
	}
	if err == nil && len(o.Former) > 0 && !o.ReadOnly {
		err = move(ctx, j, &o)
	}
	if err != nil {
		j.Close()
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return j, nil
}

// checkEpoch begins a new epoch unless the journal, whose pages are below base, continues
// what was published. marked says that this journal was the last one to report changes.
func checkEpoch(ctx context.Context, j *Journal, o JournalOptions, base string, marked bool) error {
	log := o.log()
	fresh := !j.Whole() && j.Len() == 0
	f, err := openPublished(ctx, o) // fs.ErrNotExist if nothing was published
	if fresh && errors.Is(err, fs.ErrNotExist) {
		f, err = openFormer(ctx, o)
	}
	var head protocol.Manifest
	if err == nil {
		defer f.Close()
		head, err = protocol.ReadManifestHead(f, protocol.ManifestOptions{URL: o.Base + "robots.rdf"})
	}
	switch former := err == nil && slices.Contains(o.Former, head.Base); {
	case former && fresh:
		base = head.Base
	case former && base == o.Base: // the journal has moved, and the manifest was not written since
		err = fs.ErrNotExist
	case err == nil && head.Base == o.Base && base != o.Base: // the manifest was moved with another journal
		if err := move(ctx, j, &o); err != nil {
			return err
		}
		base = o.Base
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case o.Strict && errors.Is(err, fs.ErrNotExist) && !fresh:
		return ErrDiverged
	case o.Strict && err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s: %w", ErrUnusable, o.Published, err)
	case errors.Is(err, fs.ErrNotExist):
		if !fresh && !marked {
			log.Warn("a new epoch begins: the last changes were reported from another state", "state", j.Head().String())
			return j.Renew(ctx, nil)
		}
		if !fresh {
			log.Warn("there is no published manifest to compare the state with", "published", o.Published)
		}
		return nil
	case err != nil && fresh:
		log.Warn("published manifest cannot be read: its items are not used", "published", o.Published, "err", err)
		return nil
	case err != nil:
		log.Warn("published manifest cannot be read: a new epoch begins, to be safe", "published", o.Published, "err", err)
		return j.Renew(ctx, nil)
	}
	at, was := j.Head(), head.At()
	continues := !was.IsZero() && was.Epoch == at.Epoch && was.Seq <= at.Seq
	switch {
	case o.Strict && !fresh && !(was == at && marked):
		return ErrDiverged
	case !marked && !fresh && (continues || was.IsZero()):
		log.Warn("a new epoch begins: the last changes were reported from another state", "published", was.String(), "state", at.String())
		return j.Renew(ctx, nil)
	case was.IsZero() && !fresh:
		return nil // it has no cursor to contradict
	case continues:
		return nil
	}
	if head.Complete || head.Whole != nil {
		err := j.Renew(ctx, itemsOf(f.records(ctx, &head, base), base, clock.Now(o.Now)))
		if err == nil {
			log.Info("a new epoch begins with the items of the published manifest", "published", was.String(), "state", at.String(), "items", j.Len())
			// A complete manifest is a complete description: any difference that the
			// next scan finds is a change, and is reported as one.
			return j.EndBaseline()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if o.Strict {
			return fmt.Errorf("%w: %s: %w", ErrUnusable, o.Published, err)
		}
		log.Warn("items of the published manifest cannot be used", "published", o.Published, "err", err)
	}
	if o.Strict {
		return fmt.Errorf("%w: %s does not say that it is complete", ErrUnusable, o.Published)
	}
	if fresh {
		return nil
	}
	log.Warn("a new epoch begins: the state does not continue the published manifest", "published", was.String(), "state", at.String())
	return j.Renew(ctx, nil)
}

// itemsOf yields the items among the records of a manifest. It ends with an
// error at an item that a journal of this site cannot hold. A modified after
// now becomes now: modified never goes back, so a future one would stay for ever.
func itemsOf(records iter.Seq2[protocol.Record, error], base string, now time.Time) iter.Seq2[protocol.Item, error] {
	return func(yield func(protocol.Item, error) bool) {
		last := ""
		for rec, err := range records {
			switch {
			case err != nil:
			case rec.Gone != nil:
				continue
			case !strings.HasPrefix(rec.Item.URL, base):
				err = notBelow(rec.Item.URL, base)
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

// log returns the log, one that discards if there is none.
func (o *JournalOptions) log() *slog.Logger { return cmp.Or(o.Log, slog.New(slog.DiscardHandler)) }

// MaxManifest is the size in bytes beyond which a published manifest is not fetched.
const MaxManifest = 4 << 30

// A publishedFile is a published manifest, at the place from which it came: a file or a URL.
type publishedFile struct {
	*os.File
	from string
	web  fetch.Client
}

// records yields the records of a manifest with the given head, those of its parts if it is an index.
func (f *publishedFile) records(ctx context.Context, head *protocol.Manifest, base string) iter.Seq2[protocol.Record, error] {
	o := protocol.ManifestOptions{URL: base + "robots.rdf"}
	if head.Whole != nil {
		return head.Whole.Snapshot(func(p *protocol.Part) ([]byte, error) { return f.part(ctx, head, p) }, o)
	}
	return func(yield func(protocol.Record, error) bool) {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			yield(protocol.Record{}, err)
			return
		}
		for r := protocol.NewManifestReader(f, o); ; {
			rec, err := r.Next()
			if n, _ := r.Skipped(); err == io.EOF && n == 0 {
				return
			} else if err == io.EOF {
				err = fmt.Errorf("%d entries cannot be used", n)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// ManifestItems returns the head and the items of a complete manifest in a file, which must stay. Its parts, if it has any, are
// where they are if the manifest is at path.
func ManifestItems(ctx context.Context, file, path, base string) (head protocol.Manifest, items iter.Seq2[protocol.Item, error], err error) {
	f, err := stat.Open(file)
	if err != nil {
		return head, nil, err
	}
	defer f.Close()
	head, err = protocol.ReadManifestHead(f, protocol.ManifestOptions{URL: base + "robots.rdf"})
	if err == nil && !head.Complete && head.Whole == nil {
		err = fmt.Errorf("%w: %s does not say that it is complete", ErrUnusable, file)
	}
	return head, func(yield func(protocol.Item, error) bool) {
		f, err := stat.Open(file)
		if err != nil {
			yield(protocol.Item{}, err)
			return
		}
		defer f.Close()
		p := &publishedFile{File: f, from: path}
		itemsOf(p.records(ctx, &head, base), base, time.Now())(yield)
	}, err
}

// part returns the content of a part, which is where the manifest is.
func (f *publishedFile) part(ctx context.Context, head *protocol.Manifest, p *protocol.Part) ([]byte, error) {
	if !isHTTP(f.from) {
		file, err := stat.Open(filepath.Join(f.from+manifest.PartsSuffix, path.Base(p.URL)))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return io.ReadAll(io.LimitReader(file, protocol.MaxPart+1))
	}
	dir, err := protocol.CanonicalURL(head.URL, "./")
	if err != nil {
		return nil, err
	}
	here, err := protocol.CanonicalURL(f.from, "./")
	if err != nil {
		return nil, err
	}
	a, err := f.web.Get(ctx, here+strings.TrimPrefix(p.URL, dir), nil)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if !a.OK() {
		return nil, fmt.Errorf("part %s: server answered %s", p.URL, a.Says())
	}
	return io.ReadAll(io.LimitReader(a, protocol.MaxPart+1))
}

func isHTTP(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// openPublished opens the published manifest. Its error wraps fs.ErrNotExist only
// if there certainly is none.
func openPublished(ctx context.Context, o JournalOptions) (*publishedFile, error) {
	if !isHTTP(o.Published) {
		f, err := stat.Open(o.Published)
		return &publishedFile{File: f, from: o.Published}, err
	}
	c := fetch.Client{Agent: "parley", Timeout: 10 * time.Minute, MaxBytes: MaxManifest, Redirects: 10}
	if o.HTTP != nil {
		c.Transport = o.HTTP.Transport
	}
	a, err := c.Get(ctx, o.Published, http.Header{"Cache-Control": {"no-cache"}})
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
	os.Remove(f.Name()) // on systems that allow it while the file is open; else it stays in the temporary directory
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
	return &publishedFile{File: f, from: o.Published, web: c}, nil
}
