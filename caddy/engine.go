package parleycaddy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

const (
	askRate     = 50      // pages fetched a second, at most, to learn which are public
	maxVersions = 1 << 30 // bytes of old versions, with preset high
	siteShare   = 0.5     // of the site that must have changed for its archive to be announced

	stateWait  = 10 * time.Second // how long another owner of the state may take to close it, without being reported
	firstReach = time.Minute      // how long a site that was never published waits until its server answers
	laterReach = 5 * time.Second  // the same for any other
)

// An engine is a site whose state is open.
type engine struct {
	*options
	log       *slog.Logger
	journal   *server.Journal
	docroot   *server.Site
	evidence  *evidence.Keeper
	versions  *versions.Store // nil if no contents are delivered
	archive   *archive.Maker  // nil if there is none
	publisher *server.Publisher
	notifier  *doors.Notifier
}

// publish opens the state, and publishes the site until ctx ends or a part fails; it returns why.
func (s *site) publish(ctx context.Context, log *slog.Logger) (err error) {
	e := &engine{options: &s.options, log: log}
	if err := e.openState(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.journal.Close()) }()
	if err := e.wire(); err != nil {
		return err
	}
	s.open(e.notifier)
	return e.run(ctx, s.close)
}

// openState opens the state. It waits for another owner, which at a reload is the site of the old config.
func (e *engine) openState(ctx context.Context) (err error) {
	if err := os.MkdirAll(filepath.Dir(e.State), 0o750); err != nil {
		return err
	}
	for begin := time.Now(); ; {
		e.journal, err = server.OpenJournal(ctx, e.State, server.JournalOptions{Base: e.Base, Manifest: e.Out, Published: e.Out, Log: e.log})
		if !errors.Is(err, server.ErrHeld) || time.Since(begin) > stateWait {
			return err
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// wire makes the parts. It starts none.
func (e *engine) wire() error {
	e.docroot = e.site(e.journal, e.log)
	e.evidence = &evidence.Keeper{Journal: e.journal, Rate: askRate, Trusted: e.TrustDocroot, Meta: e.Preset != "high", Logger: e.log}
	if err := e.evidence.Open(); err != nil {
		return err
	}
	inv := inventory.Inventory(e.docroot)
	if e.Preset == "high" {
		public := e.evidence.Watching(e.docroot).Public
		e.versions = &versions.Store{Dir: e.State + ".versions", Journal: e.journal, Open: e.docroot.OpenPage, Public: public, MaxBytes: maxVersions, Log: e.log}
		inv = e.versions.Keeping(inv)
		e.archive = &archive.Maker{Dir: e.State + ".archive", Base: e.Base, Journal: e.journal, Pages: e.evidence.Gate(e.versions), Public: public, Share: siteShare,
			Given: e.evidence.Given, Settle: e.evidence.Settle, Givable: func() int { return e.evidence.Status().Public }, NoArchive: e.noArchive, Logger: e.log}
		if err := e.archive.Open(); err != nil {
			e.log.Warn("no archive of the site is offered: its directory cannot be used", "err", err)
			e.archive = nil
		}
	}
	inv = e.evidence.Watching(inv)
	snapshot := &manifest.Snapshot{Path: e.Out, Manifest: doors.Describe(e.Base), Public: inv.Public}
	e.publisher = &server.Publisher{Inventory: inv, Journal: e.journal, Snapshot: snapshot, Log: e.log}
	e.publisher.Pace.Grace, e.publisher.Pages.Heal = time.Duration(e.Grace), e.Heal
	e.notifier = &doors.Notifier{Log: e.journal, Snapshot: snapshot, Base: e.Base, Public: inv.Public, Ready: e.publisher.Ready, Logger: e.log}
	if e.Preset == "low" {
		e.notifier.Limits.PullOnly, snapshot.Manifest.Stream = true, ""
	}
	if e.versions != nil {
		e.notifier.Content = doors.Content{Pages: e.evidence.Gate(e.versions), Item: e.item, Items: server.Moments(e.journal)}
		e.notifier.Clients.Where = new(cel.Expressions).Compile
	}
	if e.archive != nil {
		e.notifier.Content.Archive, e.notifier.Content.SiteShare = e.archive, siteShare
	}
	return nil
}

func (e *engine) item(url string) (protocol.Item, bool, error) {
	entry, ok, err := e.journal.Get(url)
	return entry.Item, ok, err
}

// noArchive reports whether a page, or the web server for it, forbids stored copies.
func (e *engine) noArchive(item *protocol.Item, page []byte) bool {
	isHTML := item.Type == "text/html" || item.Type == "application/xhtml+xml"
	return e.evidence.NoArchive(item.URL) || isHTML && html.Read(item.URL, page, html.Options{}).NoArchive
}

// run runs the parts until ctx ends or one of them fails, and returns why. Then closeDoors ends all requests.
func (e *engine) run(ctx context.Context, closeDoors func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var owned sync.WaitGroup
	own := func(what string, run func(context.Context) error) {
		owned.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				stop(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	own("doors", func(ctx context.Context) error { <-ctx.Done(); closeDoors(); return nil })
	own("socket", e.holder().Run)
	if err := e.reach(ctx); err != nil {
		stop(nil)
		owned.Wait()
		return err
	}
	own("publish", e.publisher.Run)
	own("evidence", e.evidence.Run)
	if e.versions != nil {
		own("versions", e.versions.Run)
	}
	if e.archive != nil {
		own("archive", e.archive.Run)
	}
	owned.Wait()
	if cause := context.Cause(ctx); cause != context.Canceled {
		return cause
	}
	return nil
}

// reach waits until the site's server answers at the base URL. This process begins to listen at about the same time, and may have to get
// a certificate first; pages that a password protects are found only by asking, and shall be found before the first scan announces them. A
// certificate that is not trusted would make all answers useless for good: that is an error, unless no answers are needed.
func (e *engine) reach(ctx context.Context) error {
	wait := laterReach
	if !e.journal.Whole() {
		wait = firstReach
	}
	c := fetch.Client{Transport: new(http.Transport), Agent: "Parley, waiting for the server", Timeout: 5 * time.Second}
	defer c.CloseIdleConnections()
	for begin := time.Now(); ; {
		a, err := c.Get(ctx, e.Base, nil)
		if err == nil {
			a.Close()
			if a.Status < 500 {
				return nil
			}
			err = errors.New(a.Says())
		}
		untrusted := new(tls.CertificateVerificationError)
		switch {
		case errors.As(err, &untrusted) && !e.TrustDocroot:
			return fmt.Errorf("pages behind a password cannot be told apart, since this machine does not trust the certificate of %s: run caddy trust, or set SSL_CERT_FILE, and restart: %w", e.Base, err)
		case untrusted.Err != nil, time.Since(begin) > wait:
			e.log.Warn("pages behind a password may be announced, until the server answers at the base URL", "base", e.Base, "err", err)
			return nil
		case !pause.For(ctx, 50*time.Millisecond):
			return ctx.Err()
		}
	}
}

// holder answers the commands of rdfgen and notifier for this site, on the socket beside the state.
func (e *engine) holder() *server.Holder {
	type answer = func(context.Context) (any, error)
	type task = func(context.Context, url.Values) (any, error)
	does := []string{}
	if e.Heal {
		does = append(does, "--heal")
	}
	return &server.Holder{State: e.State, Publisher: e.publisher, Log: e.log,
		Answers: map[string]answer{
			"does":    func(context.Context) (any, error) { return does, nil },
			"tellers": func(context.Context) (any, error) { return struct{}{}, nil },
			"robots": func(context.Context) (any, error) {
				trouble, _, lost := e.docroot.RobotsProblem()
				return map[string]any{"robots": trouble, "robots_lost": lost}, nil
			},
			"forms": func(context.Context) (any, error) {
				forms := map[string]any{"on": "preset " + e.Preset, "forms": e.notifier.Stats().Forms, "evidence": e.evidence.Status()}
				if e.versions != nil {
					forms["versions"] = e.versions.Stats()
				}
				if e.archive != nil {
					forms["archive"] = e.archive.Stats()
				}
				return forms, nil
			},
		},
		Tasks: map[string]task{
			"robots-now": func(context.Context, url.Values) (any, error) { e.docroot.AcceptRobots(); return nil, nil },
			"recheck": func(_ context.Context, q url.Values) (any, error) {
				again := e.evidence.Recheck
				if q.Has("accept-refusals") {
					again = e.evidence.Accept
				}
				return e.evidence.Status(), again()
			},
			"purge": func(_ context.Context, q url.Values) (any, error) { return e.purge(q.Get("url")) },
		}}
}

// purge discards what is stored of a page besides its current bytes.
func (e *engine) purge(page string) (any, error) {
	page, err := protocol.CanonicalURL(e.Base, page)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(page, e.Base) {
		return nil, fmt.Errorf("%s is not a page of %s", page, e.Base)
	}
	purged := map[string]any{"url": page, "versions": e.versions != nil && e.versions.Purge(page), "archives": 0}
	if e.archive != nil {
		purged["archives"] = e.archive.Purge(page)
	}
	e.notifier.Forget()
	return purged, nil
}
