package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

const publishHelp = `
For sites that a generator builds, as in CI. Between the build and the
deployment, write robots.rdf, sitemap.xml, changes.atom and lines of robots.txt
into the build:
    rdfgen publish public/ --base https://www.example.org/ --indexnow bing --indexnow-key KEY

The dates come from the live robots.rdf: a page whose bytes are the same keeps
its date, though the build wrote it anew. No cache and no git history is needed.
If the live robots.rdf cannot be read, nothing is written (exit code 1), since
every page would look new. If there is none (404), and the live robots.txt names
none, this is the first publication.

After the deployment, wait until it is live, and notify search engines and hubs
of the pages that really changed:
    rdfgen publish public/ --base https://www.example.org/ --indexnow bing --indexnow-key KEY --wait-live

DIR.parley.db, beside DIR, is what the first call leaves to the second: if they
are different jobs, pass both on. The second call can be repeated: what was sent
is not sent again.

Exit codes: 0 success; 1 something failed, or needs your attention; 2 wrong
usage.`

// A build is one run of rdfgen publish.
type build struct {
	job             job
	first, waitLive bool
	timeout         time.Duration
}

func publishCommand() *command.Command {
	bind := command.Bind
	b := build{timeout: 10 * time.Minute}
	b.job.build, b.job.verbose = &b, true
	options, others := b.job.site.BuildOptions()
	return &command.Command{
		Name:     "publish",
		Summary:  "describe a build before its deployment, and notify search engines once it is live",
		Usage:    "DIR --base URL [options]",
		Help:     publishHelp,
		Args:     []string{"DIR"},
		File:     command.File{Sites: command.NamedSite, Foreign: others},
		Required: []string{"base"},
		LogLevel: slog.LevelWarn,
		Groups: []command.Group{
			{Title: "The build", Options: []string{"base", "previous", "first", "exclude", "clean-urls", "mask", "accept-deletions"}},
			{Title: "After the deployment", Options: []string{"wait-live", "timeout", "indexnow", "indexnow-key", "websub", "on-change", "webhook"}},
		},
		Flags: append(options,
			bind("first", &b.first, "the site has no manifest yet, though it answers the URL in another way than with 404: ignore the answer"),
			bind("wait-live", &b.waitLive, "after the deployment: wait until the manifest in DIR is live, and then send what has changed"),
			bind("timeout", &b.timeout, "with --wait-live: fail if the manifest is not live, or not all was sent, within `TIME`"),
			bind("accept-deletions", &b.job.accept, "announce all missing pages as deleted, even if most of the site is missing"),
			bind("json", &b.job.json, "print the summary as JSON")),
		Run: func(ctx context.Context, env *command.Env) error {
			b.job.env = env
			return b.run(ctx, env.Args[0])
		},
	}
}

func (b *build) run(ctx context.Context, dir string) error {
	j := &b.job
	if b.timeout <= 0 {
		return command.Misusef("--timeout %s: want more than 0", b.timeout)
	}
	if err := j.site.Build(dir, j.env.Flags); err != nil {
		return err
	}
	if err := j.site.Check(j.env.Log); err != nil {
		return err
	}
	if b.waitLive {
		return b.notifyLive(ctx)
	}
	j.robotsNow = true // robots.txt is deployed together with the pages
	return j.publishOnce(ctx)
}

// open opens the journal of a build. An earlier one is continued only if it is that of the live manifest: then what it
// has not sent yet is sent with this build.
func (b *build) open(ctx context.Context) (*server.Journal, error) {
	j := &b.job
	if err := j.site.CheckPrevious(); err != nil {
		return nil, err
	}
	o := j.site.JournalOptions(j.env.Log)
	o.Strict = true
	journal, err := server.OpenJournal(ctx, j.site.State, o)
	anew := func() {
		if err = b.forget(); err == nil {
			journal, err = server.OpenJournal(ctx, j.site.State, o)
		}
	}
	if errors.Is(err, server.ErrDiverged) {
		anew()
	}
	if b.first && errors.Is(err, server.ErrUnusable) {
		o.Published = ""
		anew()
	}
	switch {
	case b.first && err == nil && journal.Whole(): // left over from the first publication
		return nil, errors.Join(command.Misusef("--first: %s is a manifest of this site, and without its dates every page would look new: omit --first", o.Published), journal.Close())
	case errors.Is(err, server.ErrUnusable):
		return nil, fmt.Errorf("%w; nothing was written, since every page would look new: run the same command again, or with --previous and a copy of the manifest;"+
			" if the site has no manifest yet, use --first, once", err)
	case err == nil && !journal.Whole():
		if !b.first && b.isListed(ctx) {
			return nil, errors.Join(fmt.Errorf("%s does not exist (404), but the live robots.txt names it, so a cache or a broken deployment hides it;"+
				" nothing was written, since every page would look new: run the same command again, or with --previous and a copy of the manifest;"+
				" if the site never had one, use --first, once", o.Published), journal.Close(), b.forget())
		}
		if !b.first {
			fmt.Fprintf(j.env.Stderr, "%s does not exist yet: ", o.Published)
		}
		fmt.Fprintln(j.env.Stderr, "this is the first publication, and each page has the date of its file.")
	}
	return journal, err
}

// isListed reports whether the live robots.txt names the manifest, as it does once a build is deployed.
func (b *build) isListed(ctx context.Context) bool {
	site := &b.job.site
	c := fetch.Client{Agent: "parley", Timeout: 30 * time.Second, MaxBytes: robots.MaxBytes, Redirects: 10}
	a, err := c.Get(ctx, protocol.Origin(site.Base)+"/robots.txt", nil)
	if err != nil {
		return false
	}
	defer a.Close()
	text, err := a.Bytes()
	return err == nil && a.OK() && slices.Contains(robots.Parse(text).Lines("manifest"), site.ManifestURL())
}

// forget removes the state of an earlier build.
func (b *build) forget() error {
	if err := os.Remove(b.job.site.State); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// prepare leaves to the second call what it needs to send the changes: a cursor for each receiver, and the key's file in
// the build.
func (b *build) prepare(ctx context.Context, p *server.Publisher) error {
	j := &b.job
	if err := j.begin(ctx, p); err != nil {
		return err
	}
	if s := j.site.IndexNow(p.Journal, p.Inventory.Public, j.env.Log); s != nil {
		return s.WriteKey()
	}
	return nil
}

// Intervals of --wait-live.
const (
	liveAgain = 5 * time.Second  // between two requests for the live manifest
	sendAgain = 30 * time.Second // between two attempts to send
)

// notifyLive waits until the build is live, and sends its changes.
func (b *build) notifyLive(ctx context.Context) error {
	j := &b.job
	for _, file := range []string{j.site.State, j.site.Out} {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("%w: rdfgen publish writes it when it is called before the deployment, without --wait-live; if that was another job, pass on %s and %s",
				err, j.site.Docroot, j.site.State)
		}
	}
	o := j.site.JournalOptions(j.env.Log)
	o.Strict, o.Published = true, j.site.Out
	journal, err := server.OpenJournal(ctx, j.site.State, o)
	if errors.Is(err, server.ErrDiverged) {
		return fmt.Errorf("%s is not from the build in %s: run rdfgen publish without --wait-live, and deploy that build", j.site.State, j.site.Docroot)
	} else if err != nil {
		return err
	}
	defer journal.Close()
	p, done, err := j.publisher(journal)
	if err != nil {
		return err
	}
	done()
	all, err := b.receivers(p)
	if err != nil {
		return err
	}
	for _, r := range all {
		if !r.begun {
			return fmt.Errorf("%s: nothing is known to be new: give this option before the deployment too", r.option)
		}
	}
	end := time.Now().Add(b.timeout)
	if err := b.waitFor(ctx, journal.Head(), end); err != nil {
		return err
	}
	fmt.Fprintf(j.env.Stderr, "%s is live.\n", j.site.ManifestURL())
	for {
		if err := j.send(ctx, p); err != nil {
			return err
		}
		if all, err = b.receivers(p); err != nil {
			return err
		}
		var refusals error
		for _, r := range all {
			if r.refuses {
				refusals = errors.Join(refusals, fmt.Errorf("%s refuses URLs: %s; everything else was sent", r.option, r.trouble))
			}
		}
		all = slices.DeleteFunc(all, func(r receiver) bool { return !r.waits })
		if len(all) == 0 {
			return refusals
		}
		if !b.again(ctx, sendAgain, end) {
			return cmp.Or(ctx.Err(), fmt.Errorf("not everything could be sent within %s, such as to %s (%s): run the same command again", b.timeout, all[0].option,
				cmp.Or(all[0].trouble, "it has not been tried yet")))
		}
	}
}

// waitFor waits until the live manifest is at a cursor: its epoch, a random word, is of this build alone.
func (b *build) waitFor(ctx context.Context, want protocol.Cursor, end time.Time) error {
	j := &b.job
	for {
		at, err := liveCursor(ctx, j.site.ManifestURL(), time.Until(end))
		if err == nil && at == want {
			return nil
		}
		if !b.again(ctx, liveAgain, end) {
			if err == nil {
				err = fmt.Errorf("it is at %s, and the build at %s", at, want)
			}
			return cmp.Or(ctx.Err(), fmt.Errorf("%s is not the manifest in %s after %s: %w; nothing was sent: complete the deployment, and run the same command again",
				j.site.ManifestURL(), j.site.Docroot, b.timeout, err))
		}
	}
}

// again waits before another attempt, and reports false if there is no time left for one.
func (b *build) again(ctx context.Context, wait time.Duration, end time.Time) bool {
	left := time.Until(end)
	return left > 0 && pause.For(ctx, min(pause.AtMost(wait, b.job.site.Hurry), left))
}

// liveCursor returns the cursor of a manifest, of which it reads only the head, within the time that is left.
func liveCursor(ctx context.Context, url string, left time.Duration) (protocol.Cursor, error) {
	c := fetch.Client{Agent: "parley", Timeout: min(max(left, time.Second), 30*time.Second), MaxBytes: server.MaxManifest, Redirects: 10}
	a, err := c.Get(ctx, url, http.Header{"Cache-Control": {"no-cache"}})
	if err != nil {
		return protocol.Cursor{}, err
	}
	defer a.Close()
	if !a.OK() {
		return protocol.Cursor{}, errors.New("server answered " + a.Says())
	}
	head, err := protocol.ReadManifestHead(a, protocol.ManifestOptions{URL: url})
	return head.At(), err
}

// A receiver is an engine, a hub, a command or a webhook.
type receiver struct {
	option, trouble string
	begun           bool // the state knows what it was sent
	waits           bool // something is to be sent to it now
	refuses         bool // it has refused URLs, which it is sent again much later: trouble names one
}

func (b *build) receivers(p *server.Publisher) (all []receiver, err error) {
	j := &b.job
	if s := j.site.IndexNow(p.Journal, p.Inventory.Public, j.env.Log); s != nil {
		st, err := s.Status()
		if err != nil {
			return nil, err
		}
		for _, e := range st.Engines {
			trouble := cmp.Or(e.Trouble, "no URL is sent to it twice within 10 minutes")
			for _, o := range e.Results {
				if o.URL != "" && e.Trouble == "" { // one page is refused, not all
					trouble = o.URL + " (" + o.Note + ")"
				}
			}
			all = append(all, receiver{"--indexnow " + e.Name, trouble, !e.Cursor.IsZero(), e.Pending > e.Refused || e.Behind > 0, e.Refused > 0})
		}
	}
	if s := j.site.WebSub(p.Journal, p.Journal.Head, j.env.Log); s != nil {
		st, err := s.Status()
		if err != nil {
			return nil, err
		}
		for _, e := range st {
			all = append(all, receiver{"--websub " + e.Hub, e.Trouble, !e.Cursor.IsZero(), e.Owed, false})
		}
	}
	if s := j.site.Hooks(p.Journal, p.Inventory.Public, j.env.Log); s != nil {
		st, err := s.Status()
		if err != nil {
			return nil, err
		}
		for _, e := range st {
			all = append(all, receiver{"--" + e.Kind + " " + e.Name, e.Trouble, !e.Cursor.IsZero(), e.Cursor != p.Journal.Head(), false})
		}
	}
	return all, nil
}
