// Notifier watches a document root and delivers every change to subscribers: a sidecar beside the web server.
// Its manual is "notifier -h".
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/doors"
)

func main() {
	agent.Main() // returns, unless this process was started to run a crawler's program
	os.Exit(command.Main(context.Background(), notifier, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const help = `
Watch a docroot, keep its robots.rdf up to date, and serve changes at /parley/:
    notifier --docroot /var/www/html --base https://www.example.org/ --out /var/www/html/robots.rdf

It listens on 127.0.0.1:8639; the web server forwards these locations to it:
    /robots.rdf            the manifest (or let the web server serve --out)
    /parley/changes        changes after a cursor, also as a long poll
    /parley/stream         changes as they happen, over WebSocket
    /.well-known/parley    the addresses of these and of all other doors

Deliver more than notices of changes, within the resources of the site:
    notifier ... --preset high                    pages, differences, batches, archives and queries
    notifier ... --preset high --archive=false    all of these except archives
    notifier ... --versions 200MB                 only differences from old versions
    notifier ... --preset low                     polling only

Identify crawlers by a token, so that their own group in robots.txt applies, and run their programs:
    echo "NiceBot $(openssl rand -hex 16) agents" >>/etc/parley.callers
    notifier ... --preset high --callers /etc/parley.callers
    sed -i /^NiceBot/d /etc/parley.callers        revokes the token; no restart is needed

The notifier fetches the pages from the web server anonymously. It does not
announce pages that the web server refuses, and delivers only content that the
web server serves. After a change of passwords or permissions, and to withdraw
text that should never have been public:
    notifier recheck --base https://www.example.org/
    notifier purge --base https://www.example.org/ https://www.example.org/staff/rota.html

Serve a page about the site, metrics and health on a separate address:
    notifier ... --admin 127.0.0.1:8640       then GET /, /metrics, /healthz

Share the log of the site through NATS, with standbys, and with doors that have no docroot:
    notifier ... --log nats://a:4222,nats://b:4222
    notifier --door --base https://www.example.org/ --log nats://a:4222,nats://b:4222

Show the state of the site:
    notifier status --base https://www.example.org/

rdfgen with the same docroot and base asks a running notifier to scan at once;
rdfgen --accept-deletions confirms that many missing pages were deleted on purpose.

Exit codes: 0 stopped by a signal; 1 something failed; 2 wrong usage.`

type daemon struct {
	site          siteflags.Flags
	limits        doors.Limits
	welcome       protocol.Welcome
	listen, admin string
	adminToken    string
	proxies       caller.Proxies
	noSelfCheck   bool
	log           sharedLog
}

func notifier() *command.Command {
	bind := command.Bind
	d := daemon{listen: "127.0.0.1:8639"}
	d.limits.MaxSubscribers, d.limits.PerAddress, d.limits.Heartbeat = 1000, 16, 25*time.Second
	p := &d.site.Publish.Pace
	p.Grace, p.ScanEvery, p.WriteEvery = time.Minute, 10*time.Minute, 10*time.Second
	return &command.Command{
		Name:     "notifier",
		Summary:  "watch a site and publish its changes",
		Usage:    "--docroot DIR --base URL [options]",
		Sub:      []*command.Command{status(), recheck(), purge()},
		Help:     help,
		Required: []string{"base"},
		File: command.File{Sites: command.Concurrent, Default: siteflags.ConfigFile, Foreign: siteflags.RdfgenOnly(),
			Exclusive: func() []string { return append(d.site.Claims(), "--listen "+d.listen) }},
		Groups: []command.Group{
			{Title: "The site", Options: []string{"docroot", "base", "exclude", "robots"}},
			{Title: "Output", Options: []string{"out", "sitemap", "state"}},
			{Title: "Delivery", Options: []string{"listen", "preset", "callers", "ask-via"}},
			{Title: "Operation", Options: []string{"admin", "config", "log-level"}},
		},
		Flags: slices.Concat(d.site.Options(50), d.site.DoorOptions(), d.log.options(), []command.Flag{
			bind("listen", &d.listen, "listen on `ADDRESS` for requests from the web server"),
			bind("admin", &d.admin, "serve a page about the site, metrics and health on `ADDRESS`"),
			bind("admin-token", &d.adminToken, "require for the page, not for metrics and health, a token in `FILE`, one per line, read at the start (default: the page is served only to this machine)"),
			bind("grace", &p.Grace, "announce a missing page as deleted after `TIME`"),
			bind("look-every", &p.ScanEvery, "scan the whole site every `TIME`, even without file system events"),
			bind("write-every", &p.WriteEvery, "while changes keep coming, write the manifest at most every `TIME`"),
			bind("heartbeat", &d.limits.Heartbeat, "send a heartbeat on a stream after `TIME` without a message"),
			bind("max-subscribers", &d.limits.MaxSubscribers, "serve at most `N` subscribers, up to 100,000"),
			bind("per-address", &d.limits.PerAddress, "serve at most `N` subscribers from one address"),
			bind("trusted-proxy", &d.proxies, "believe the X-Forwarded-For header of proxies at `ADDRESSES`, such as 10.0.0.7,192.0.2.0/24: the last address there that is none of them is the client's (a proxy on this machine is always believed)"),
			bind("welcome-rate", &d.welcome.Rate, "allow each crawler `N` requests a second (0: not stated; crawlers use their own polite rate)"),
			bind("welcome-connections", &d.welcome.Connections, "allow each crawler `N` connections (0: not stated)"),
			bind("welcome-batch", &d.welcome.Batch, "allow batches of at most `N` pages (0: not stated)"),
			bind("no-self-check", &d.noSelfCheck, "skip the check at the start that fetches robots.rdf, .well-known/parley and a few published pages from the web server"),
		}),
		Run: d.run,
	}
}

func (d *daemon) run(ctx context.Context, env *command.Env) (err error) {
	if h := d.limits.Heartbeat; h <= 0 || h > protocol.MaxHeartbeat {
		return command.Misusef("--heartbeat %s: want more than 0, and at most %s: after a longer silence crawlers assume that the stream has ended", h, protocol.MaxHeartbeat)
	}
	if n := d.limits.MaxSubscribers; n > doors.MostSubscribers {
		return command.Misusef("--max-subscribers %d: want at most %d", n, doors.MostSubscribers)
	}
	if err := d.checkLog(env); err != nil {
		return err
	}
	if err := d.site.CheckDocroot(); err != nil {
		return fmt.Errorf("--%w", err) // the name of the option
	}
	if err := d.site.StatePath(); err != nil {
		return err
	}
	if d.log.door {
		return unlessEnded(ctx, d.runDoor(ctx, env))
	}
	if err := d.site.Check(env.Log); err != nil {
		return err
	}
	tokens, err := command.ReadTokens("announce-tokens", d.site.Tokens())
	if err != nil {
		return err
	}
	if d.adminToken != "" && d.admin == "" {
		return command.Misusef("--admin-token %s: it needs --admin", d.adminToken)
	}
	adminTokens, err := command.ReadTokens("admin-token", d.adminToken)
	if err != nil {
		return err
	}
	if d.log.servers != "" {
		return unlessEnded(ctx, d.runWriter(ctx, env, tokens, adminTokens))
	}
	o := d.site.JournalOptions(env.Log)
	o.Wait = journalWait
	journal, err := server.OpenJournal(ctx, d.site.State, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	return d.publish(ctx, env, journal, nil, tokens, adminTokens)
}

// journalWait is how long another process may take to close the state: an rdfgen from cron, or a notifier that is ending.
const journalWait = 10 * time.Second

// publish keeps a journal in step with the site, and serves it, until ctx ends. With w it tells the log in NATS.
func (d *daemon) publish(ctx context.Context, env *command.Env, journal *server.Journal, w *told, tokens, adminTokens []string) error {
	hangups := make(chan os.Signal, 1) // the usual request to reload files
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	site, err := d.site.Inventory(journal, env.Log)
	if err != nil {
		return err
	}
	on, err := d.site.Forms(env.Flags)
	if w != nil {
		on, err = d.site.SharedForms(env.Flags, false)
	}
	if err != nil {
		return err
	}
	f, err := newDeliveries(&d.site, on, site, journal, env.Log)
	if err != nil {
		return err
	}
	p := d.site.Publisher(f.Inventory, journal, env.Log)
	public := p.Inventory.Public
	snapshot := p.Snapshot
	d.limits.Hurry = d.site.Hurry
	// When one task ends, all end: streams are closed, then the listeners, then the publisher writes a last
	// manifest.
	ctx, own, wait := owning(ctx)
	var log protocol.Log = journal
	if w != nil {
		log = w.log
		snapshot.Told = func(late context.Context, at protocol.Cursor) error {
			if err := ctx.Err(); err != nil && w.log.Head() != at { // nothing is told any more: the next writer stores the manifest
				return err
			}
			return w.log.Told(late, at)
		}
		p.Outputs = append(p.Outputs, &publishedFiles{files: w.stream.Files(), snapshot: snapshot, over: ctx})
	}
	n := &doors.Notifier{Log: log, Snapshot: snapshot, Base: d.site.Base, Public: public, Ready: p.Ready, Limits: d.limits, Logger: env.Log}
	if d.welcome != (protocol.Welcome{}) {
		n.Welcome = &d.welcome
	}
	n.Clients.Proxies = d.proxies
	if len(tokens) > 0 {
		n.Clients.Announce, n.Clients.AnnounceTokens = p.Announce, tokens
		if w != nil {
			n.Clients.Announce = w.announce(p.Announce)
		}
	}
	f.offer(n, site, journal)
	if w != nil && n.Content.Items != nil {
		n.Content.Items = toldMoments(w.log)
	}
	t := senders{
		hubURL:  d.site.HubURL(),
		engines: d.site.IndexNow(journal, public, env.Log),
		hubs:    d.site.WebSub(journal, p.Published, env.Log),
		hub:     d.site.Hub(journal, p.Published, env.Log),
		hooks:   d.site.Hooks(journal, public, env.Log),
	}
	if t.hub != nil {
		t.hub.Options.Client = d.proxies.Address
	}
	if t.hooks != nil {
		t.hooks.Options.Ready = p.Ready
		if err := t.hooks.Begin(); err != nil { // before any change
			return err
		}
	}
	if t.engines != nil {
		if err := t.engines.Check(); err != nil {
			return command.Misusef("--%w", err) // it begins with the option
		}
		// An engine that is new to the journal gets its cursor here, before any change.
		t.engines.Options.Ready = p.Ready
		if _, err := t.engines.Turn(ctx); err != nil {
			return err
		}
	}
	rules, tasks := siteflags.RulesOf(site), f.Tasks(n)
	if w != nil {
		w.share(n.Content.Pages, f.Archive, d.log.on.Versions, f.Evidence, tasks)
		if d.log.on.Versions > 0 && f.Versions != nil { // of those that an earlier writer had on its disk
			w.earlier = jetlog.NewContents(w.log, env.Log)
			f.Versions.Earlier = w.earlier.Earlier
		}
	}
	tasks["robots-now"] = func(context.Context, url.Values) (any, error) { rules.AcceptRobots(); return nil, nil }
	holder := &server.Holder{State: d.site.State, Publisher: p, HTTP: d.site.HTTP(), Tasks: tasks, Log: env.Log,
		Answers: map[string]func(context.Context) (any, error){
			"forms":   func(context.Context) (any, error) { return f.status(n), nil },
			"tellers": func(context.Context) (any, error) { return t.status() },
			"robots":  func(context.Context) (any, error) { return robotsOf(rules), nil },
			"does":    func(context.Context) (any, error) { return append([]string{}, d.site.TaskOptions()...), nil },
		}}
	if w != nil {
		holder.Scanned = func(ctx context.Context) error { return w.withdraw(ctx, "") }
		holder.Answers["log"] = func(ctx context.Context) (any, error) { return healthOf(ctx, "writer", d.site.Base, w.log), nil }
	}

	doors, adminListener, err := d.listeners()
	if err != nil {
		return err
	}
	own("doors", func() error {
		return serve(ctx, doors, t.doors(withPages(n, f.Pages, d.site.Base), d.site.Base), n.Close)
	})
	if adminListener != nil {
		page := &sitePage{base: d.site.Base, journal: journal, publisher: p, notifier: n, forms: f, senders: &t, rules: rules, holder: holder, told: w}
		if logs := d.site.AccessLogs(); len(logs) > 0 {
			page.costs = &crawlerCosts{logs: logs, log: env.Log, sitemap: slices.ContainsFunc(p.Outputs, func(o server.Output) bool {
				_, is := o.(*static.Sitemap)
				return is
			})}
			own("crawler costs", func() error { return page.costs.run(ctx) })
		}
		guard := &admin.Guard{Tokens: adminTokens, Listener: adminListener.Addr()}
		own("admin", func() error { return serve(ctx, adminListener, adminHandler(ctx, page, guard), nil) })
	}
	own("hangups", func() error {
		for {
			select {
			case <-hangups:
				said := "the --callers file is read whenever it changes, all other options only at the start"
				if _, err := holder.Do(ctx, "recheck", nil); err == nil {
					said = "checking all pages on the web server again; " + said
				}
				env.Log.Info("SIGHUP: " + said)
			case <-ctx.Done():
				return nil
			}
		}
	})
	own("publish", func() error { return p.Run(ctx) })
	own("socket", func() error { return holder.Run(ctx) })
	t.own(ctx, own)
	f.own(ctx, own)
	if w != nil {
		w.own(ctx, own)
	}
	if !d.noSelfCheck {
		own("self-check", func() error { selfCheck(ctx, journal, p, &d.site, env.Log); return nil })
	}
	env.Log.Info("notifier listens", "address", doors.Addr().String(), "base", d.site.Base, "state", d.site.State, "manifest", snapshot.Path)
	return wait()
}

// serve serves until ctx ends; then showOut closes the streams, and requests under way end.
func serve(ctx context.Context, ln net.Listener, h http.Handler, showOut func(context.Context) error) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	var err error
	if showOut != nil {
		err = showOut(end)
	}
	if s.Shutdown(end) != nil {
		s.Close()
	}
	<-done
	return err
}

// selfCheck waits for the first scan and then checks whether the web server serves what is published, and forwards the URLs of the notifier.
func selfCheck(ctx context.Context, journal *server.Journal, p *server.Publisher, site *siteflags.Flags, log *slog.Logger) {
	for p.Status().Looks == 0 {
		if !pause.For(ctx, 100*time.Millisecond) {
			return
		}
	}
	via := site.HTTP()
	checked, err := server.SelfCheck(ctx, journal, via, 0)
	if err != nil {
		if ctx.Err() == nil {
			log.Warn("self-check failed to run", "err", err)
		}
		return
	}
	for _, f := range checked.Findings {
		log.Warn("self-check: " + f.String())
	}
	asking := fetch.Client{Agent: "Parley self-check", Timeout: 10 * time.Second}
	if via != nil {
		asking.Transport = via.Transport
	}
	for _, url := range []string{site.ManifestURL(), doors.Describe(site.Base).Discovery} {
		a, err := asking.Get(ctx, url, nil)
		if err != nil {
			if len(checked.Findings) == 0 && ctx.Err() == nil { // else it was said of the pages
				log.Warn("self-check: " + url + ": " + err.Error())
			}
			continue
		}
		if a.Close(); a.Status == http.StatusNotFound || a.Status == http.StatusBadGateway {
			log.Warn("self-check: " + url + ": the web server answers " + a.Says() +
				": crawlers cannot find what is published. Let the web server forward this URL: \"rdfgen setup\" writes its configuration, and \"rdfgen doctor\" checks it")
		}
	}
	log.Info("self-check: " + checked.String())
}
