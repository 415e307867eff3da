package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

// A replica is a copy of what another notifier tells of a site: its changes in a journal, and the files of its manifest.
type replica struct {
	role     string // standby or door
	base     string
	contents *jetlog.Contents // nil: bytes of pages are not delivered

	publisher *server.Publisher // of the journal and the snapshot; it publishes nothing
	log       *jetlog.Log
	snapshot  *manifest.Snapshot
	logger    *slog.Logger

	ruled bool                         // the rules of robots.txt are needed
	rules atomic.Pointer[robots.Rules] // nil: nothing is known of them

	described string // the manifest, or its parts, from which the journal has what stands beside the pages' bytes; used by keepManifest only

	mu    sync.Mutex // guards files, and the directory of the parts
	files *jetlog.Files
}

// newReplica returns the replica in a journal, with its manifest beside the state. The site of a standby was, perhaps, written here before.
func newReplica(role, base, state string, j *server.Journal, stream *jetlog.Stream, log *slog.Logger) *replica {
	r := &replica{role: role, base: base, files: stream.Files(), logger: log,
		snapshot: &manifest.Snapshot{Path: state + ".robots.rdf", Manifest: doors.Describe(base)}}
	r.publisher = &server.Publisher{Journal: j, Snapshot: r.snapshot}
	r.log = &jetlog.Log{Stream: stream, Journal: j, Items: r.items, Ahead: role == "standby", Logger: log}
	return r
}

func (r *replica) partsDir() string { return r.snapshot.Path + manifest.PartsSuffix }

// fetch writes the manifest to a file, and its parts to their directory. It returns its version.
func (r *replica) fetch(ctx context.Context, file string) (version string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files.Fetch(ctx, file, r.partsDir())
}

// items returns what the newest manifest of the writer lists.
func (r *replica) items(ctx context.Context) (at protocol.Cursor, items iter.Seq2[protocol.Item, error], err error) {
	file := r.snapshot.Path + ".items"
	if _, err := r.fetch(ctx, file); err != nil {
		return at, nil, err
	}
	head, items, err := server.ManifestItems(ctx, file, r.snapshot.Path, r.base)
	r.logger.Info("the copy of the site begins with its manifest", "at", head.At().String())
	return head.At(), items, err
}

// Waits of keepManifest.
const (
	manifestSoon  = time.Second      // while the manifest is behind what was told
	manifestLater = 10 * time.Second // while it is not: what stands beside the pages' bytes may have changed
)

// keepManifest keeps the files of the manifest those of the writer, until ctx ends.
func (r *replica) keepManifest(ctx context.Context) error {
	if err := r.snapshot.Load(r.log.Journal); err != nil {
		r.logger.Warn("the copied manifest could not be loaded: it will be fetched again", "err", err)
	}
	placed, trouble := "", ""
	for ctx.Err() == nil {
		var err error
		placed, err = r.fetchManifest(ctx, placed)
		if r.ruled {
			err = errors.Join(err, r.fetchRules(ctx))
		}
		if err != nil && ctx.Err() == nil && err.Error() != trouble {
			trouble = err.Error()
			r.logger.Warn("the manifest of the site could not be copied: trying again", "err", err)
		}
		if at := r.snapshot.Cursor(); !at.IsZero() && at == r.log.Head() {
			wait, cancel := context.WithTimeout(ctx, manifestLater)
			r.log.Wait(wait, at) // or until it is time
			cancel()
		} else {
			pause.For(ctx, manifestSoon)
		}
	}
	return nil
}

// fetchManifest fetches the manifest unless it is at a version, and returns its version then.
func (r *replica) fetchManifest(ctx context.Context, version string) (string, error) {
	r.mu.Lock()
	now, err := r.files.Version(ctx)
	r.mu.Unlock()
	if err != nil || now == "" || now == version {
		return version, err
	}
	file := r.snapshot.Path + ".new"
	if now, err = r.fetch(ctx, file); err != nil {
		return version, err
	}
	head, items, err := server.ManifestItems(ctx, file, r.snapshot.Path, r.base)
	if err != nil {
		return version, err
	}
	at := head.At()
	if is := r.snapshot.Cursor(); is.Epoch == at.Epoch && is.Seq > at.Seq {
		return now, nil // of a writer that was replaced
	}
	if err := r.log.Told(ctx, at); err != nil {
		return version, err
	}
	if err := r.describe(ctx, now, &head, items); err != nil {
		return version, err
	}
	if err := r.snapshot.Place(file, r.log.Journal); err != nil {
		return version, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return now, r.files.Sweep(ctx, r.partsDir())
}

// fetchRules copies the rules of robots.txt, as the writer has handed them over.
func (r *replica) fetchRules(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := takeOver(ctx, r.files, r.log.Journal); err != nil {
		return err
	}
	return r.loadRules()
}

// loadRules goes by the rules that were copied last.
func (r *replica) loadRules() error {
	rules, err := (&robots.Keeper{Notes: r.log.Journal}).Load()
	if err == nil {
		r.rules.Store(rules)
	}
	return err
}

// publicTo reports whether the rules that robots.txt has for a crawler allow a URL.
func (r *replica) publicTo(name, url string) bool {
	rules := r.rules.Load()
	return rules == nil || rules.Allowed(name, strings.TrimPrefix(url, protocol.Origin(url)))
}

// describe stores what the manifest says of pages beside their bytes, such as a new title: for that there is no change. Of a manifest in
// parts, the parts that follow the changes say nothing new.
func (r *replica) describe(ctx context.Context, version string, head *protocol.Manifest, items iter.Seq2[protocol.Item, error]) error {
	if head.Whole != nil {
		parts := sha256.New()
		for _, p := range head.Whole.Parts {
			parts.Write(p.Digest[:])
		}
		version = string(parts.Sum(nil))
	}
	if version == r.described {
		return nil
	}
	var batch []protocol.Change
	store := func() (err error) {
		err = r.log.Journal.Replay(ctx, protocol.Cursor{}, batch)
		batch = batch[:0]
		return err
	}
	for it, err := range items {
		if err == nil && len(batch) == protocol.MaxBatch {
			err = store()
		}
		if err != nil {
			return err
		}
		batch = append(batch, protocol.Change{Item: it})
	}
	err := store()
	if err == nil {
		r.described = version
	}
	return err
}

// offered is a log without what was said of pages that are not offered any more: only that they are gone. A page may have been
// withdrawn because it should never have been public.
type offered struct {
	*jetlog.Log
}

// Read implements [protocol.Log].
func (o offered) Read(ctx context.Context, after protocol.Cursor, max int) ([]protocol.Change, error) {
	changes, err := o.Log.Read(ctx, after, max)
	if err != nil || len(changes) == 0 {
		return changes, err
	}
	v, err := o.Journal.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	for i, c := range changes {
		if c.Op == protocol.Delete {
			continue
		}
		_, is, err := v.Get(c.Item.URL)
		if err != nil {
			return nil, err
		}
		if is {
			continue
		}
		if c.Op == protocol.Move {
			changes[i], _ = c.Public(func(url string) bool { return url == c.From })
		} else {
			changes[i] = c.Left()
		}
	}
	return changes, nil
}

// health returns how far the copy is.
func (r *replica) health(ctx context.Context) *logHealth {
	h := healthOf(ctx, r.role, r.base, r.log)
	if r.contents != nil {
		var err error
		if h.Contents, err = r.contents.Current(ctx); err != nil {
			h.NoContents = err.Error()
		}
	}
	return h
}

// logHealth is what /healthz and status say of a log in NATS.
type logHealth struct {
	Role   string          `json:"role"`           // writer, standby or door
	Stream string          `json:"stream"`         // its name in NATS
	Here   protocol.Cursor `json:"here"`           // what the doors here deliver
	Told   protocol.Cursor `json:"told,omitzero"`  // what the stream has
	Away   string          `json:"away,omitempty"` // why NATS does not answer; then the doors deliver what they have

	// Of a copy that delivers pages: up to which change it has their contents, and why it delivers none.
	Contents   protocol.Cursor `json:"contents,omitzero"`
	NoContents string          `json:"no_contents,omitempty"`
}

// healthPatience is how long /healthz and status wait for NATS.
const healthPatience = 2 * time.Second

// healthOf asks NATS how far a log is.
func healthOf(ctx context.Context, role, base string, log *jetlog.Log) *logHealth {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	told, err := log.Stream.Head(ctx)
	h := &logHealth{Role: role, Stream: streamName(base), Here: log.Head(), Told: told}
	if err != nil {
		h.Away = err.Error()
	}
	return h
}

// facts returns what a person wants to know.
func (h *logHealth) facts() []fact {
	is := "has all that was told"
	if h.Away != "" {
		is = "NATS does not answer: " + h.Away
	} else if h.Told.Epoch != h.Here.Epoch {
		is = fmt.Sprintf("at %s, and NATS at %s", h.Here, h.Told)
	} else if h.Told.Seq > h.Here.Seq {
		is = fmt.Sprintf("%d changes behind %s", h.Told.Seq-h.Here.Seq, h.Told)
	}
	list := []fact{{"log", fmt.Sprintf("%s of %s: %s", h.Role, h.Stream, is)}}
	if h.NoContents != "" {
		list = append(list, fact{"contents", "none are delivered: " + h.NoContents})
	} else if !h.Contents.IsZero() {
		list = append(list, fact{"contents", fmt.Sprintf("all at %s", h.Contents)})
	}
	return list
}

// serveCopy serves what a replica has until ctx ends, something fails, or until returns, whose error it returns.
func (d *daemon) serveCopy(ctx context.Context, r *replica, until func(context.Context) error) error {
	limits := d.limits
	limits.PullOnly, limits.Hurry = !d.log.on.Stream, d.site.Hurry
	n := &doors.Notifier{Log: offered{r.log}, Snapshot: r.snapshot, Base: d.site.Base, Limits: limits, Logger: r.logger}
	if d.welcome != (protocol.Welcome{}) {
		n.Welcome = &d.welcome
	}
	n.Clients.Proxies = d.proxies
	if d.log.on.Callers != "" {
		callers, err := readCallers(d.log.on.Callers, r.logger)
		if err == nil {
			err = r.loadRules()
		}
		if err != nil {
			return err
		}
		r.ruled = true
		n.Clients.Identify, n.Clients.PublicTo = callers.Identify, r.publicTo
	}
	if d.log.on.Query {
		n.Content.Items = toldMoments(r.log)
	}
	if d.log.on.Expressions {
		n.Clients.Where = new(cel.Expressions).Compile
	}
	var store *versions.Store
	var served *versions.Handler
	if d.log.on.Pages {
		r.contents = jetlog.NewContents(r.log, r.logger)
		store = &versions.Store{Journal: r.log.Journal, Open: r.contents.Open, Log: r.logger}
		if d.log.on.Versions > 0 {
			store.Earlier = r.contents.Earlier
		}
		if d.log.on.Serve {
			served = &versions.Handler{Store: store, Journal: r.log.Journal, Base: d.site.Base, Expires: d.log.on.Expires}
		}
		n.Content.Pages, n.Content.Item = copiedPages{store, r.contents}, func(url string) (protocol.Item, bool, error) {
			e, ok, err := r.log.Journal.Get(url)
			return e.Item, ok, err
		}
	}
	var copied *archive.Maker
	if d.log.on.Archive {
		copied = &archive.Maker{Dir: d.site.State + ".archive", Base: d.site.Base, Journal: r.log.Journal, Log: r.log, Named: r.contents.Named,
			Share: d.log.on.Share, MaxAge: d.site.Hurry, Logger: r.logger}
		if err := copied.Open(); err != nil {
			return err
		}
		n.Content.Archive, n.Content.SiteShare = copied, d.log.on.Share
	}
	listener, adminListener, err := d.listeners()
	if err != nil {
		return err
	}
	ctx, own, wait := owning(ctx)
	own("doors", func() error { return serve(ctx, listener, withPages(n, served, d.site.Base), n.Close) })
	if adminListener != nil {
		own("admin", func() error {
			return serve(ctx, adminListener, healthMux(&metrics{r.publisher, n, nil}, func(ctx context.Context) (bool, any) {
				health := r.health(ctx)
				return !health.Here.IsZero(), map[string]*logHealth{"log": health}
			}), nil)
		})
	}
	own("log", func() error { return r.log.Follow(ctx) })
	if r.contents != nil {
		own("contents", func() error { return r.contents.Follow(ctx) })
		own("versions", func() error { return store.Run(ctx) })
	}
	if copied != nil {
		own("archive", func() error { return copied.Run(ctx) })
		own("copies of the archive", func() error { return r.contents.FollowArchives(ctx, copied.Add) })
	}
	own("manifest", func() error { return r.keepManifest(ctx) })
	own("socket", func() error {
		h := &server.Holder{State: d.site.State, Publisher: r.publisher, Log: r.logger,
			Answers: map[string]func(context.Context) (any, error){
				"log": func(ctx context.Context) (any, error) { return r.health(ctx), nil },
				"forms": func(context.Context) (any, error) {
					s := forms.Status{On: d.log.on.String(), Forms: n.Stats().Forms}
					if copied != nil {
						a := copied.Stats()
						s.Archive = &a
					}
					return s, nil
				},
				"tellers": func(context.Context) (any, error) { return tellersStatus{}, nil },
				"does":    func(context.Context) (any, error) { return []string{}, nil },
			}}
		return h.Run(ctx)
	})
	own(r.role, func() error {
		if err := until(ctx); err != nil {
			return err
		}
		return errOver
	})
	r.logger.Info("notifier listens", "role", r.role, "address", listener.Addr().String(), "base", d.site.Base)
	if err := wait(); !errors.Is(err, errOver) {
		return err
	}
	return nil
}

// copiedPages are pages whose bytes are in NATS, with their differences.
type copiedPages struct {
	content.Pages
	contents *jetlog.Contents
}

// Present implements [content.Pages]. It does not wait for the bytes of a page that was just edited.
func (p copiedPages) Present(item *protocol.Item) bool { return p.contents.Present(item) }

// errOver ends a phase that has succeeded.
var errOver = errors.New("over")

// hostAndProcess names this process to people.
func hostAndProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s (process %d)", host, os.Getpid())
}

// streamName returns the name of a site's stream.
func streamName(base string) string {
	digest := protocol.Sum([]byte(base))
	host := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.TrimSuffix(base[strings.Index(base, "//")+2:], "/"))
	return fmt.Sprintf("parley-%.40s-%x", host, digest[:4])
}
