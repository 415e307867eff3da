package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/content"
)

// leaseTime is how long the notifier that writes may be silent before another one does.
const leaseTime = 5 * time.Second

// A sharedLog is the options of a site's log in NATS, which several notifiers share.
type sharedLog struct {
	servers, creds string
	door           bool
	on             siteflags.Forms
}

func (l *sharedLog) options() []command.Flag {
	bind := command.Bind
	return []command.Flag{
		bind("log", &l.servers, "share the log of the site through NATS JetStream at `URLS`, separated by commas, such as nats://a:4222,nats://b:4222: of the notifiers with a docroot and the same base, one writes it, and the others stand by to take over"),
		bind("log-creds", &l.creds, "connect to NATS with the credentials in `FILE`, instead of a user and password, or a token, in the URLs of --log"),
		bind("door", &l.door, "with --log: serve the changes that another notifier writes, and the manifest, without a docroot; with --pages there and here, the pages, too"),
	}
}

// checkLog reports what is wrong with the options.
func (d *daemon) checkLog(env *command.Env) error {
	l := &d.log
	switch {
	case l.servers == "" && (l.door || l.creds != ""):
		return command.Misusef("--door and --log-creds need --log: the URLs of NATS")
	case l.servers == "":
		return nil
	case l.door && d.site.Docroot != "":
		return command.Misusef("--door and --docroot exclude each other: a door reads the log of a site, and a notifier with a docroot writes it")
	}
	on, err := d.site.SharedForms(env.Flags, l.door)
	l.on = on
	return err
}

// open connects to NATS, and opens the stream of the site.
func (l *sharedLog) open(ctx context.Context, base string, log *slog.Logger) (stream *jetlog.Stream, end func(), err error) {
	nc, err := jetlog.Connect(l.servers, l.creds)
	if err != nil {
		return nil, nil, fmt.Errorf("--log: connect to NATS: %w", err)
	}
	err = patiently(ctx, log, func() error {
		stream, err = jetlog.Open(ctx, nc, jetlog.Options{Name: streamName(base), Reader: l.door})
		return err
	})
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return stream, nc.Close, nil
}

// patiently tries what needs NATS until it succeeds, or ctx ends: it may be starting, too, or elect who leads a stream.
func patiently(ctx context.Context, log *slog.Logger, try func() error) error {
	for trouble := ""; ; {
		err := try()
		if err == nil || ctx.Err() != nil || errors.Is(err, jetlog.ErrUnsafe) {
			return err
		}
		if err.Error() != trouble {
			trouble = err.Error()
			log.Warn("waiting for NATS", "err", err)
		}
		if !pause.For(ctx, time.Second) {
			return err
		}
	}
}

// unlessEnded returns an error unless it only says that ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// checkDurable refuses servers that acknowledge what a power failure may take back.
func checkDurable(ctx context.Context, stream *jetlog.Stream, log *slog.Logger) error {
	known := false
	err := patiently(ctx, log, func() (err error) {
		known, err = stream.Durable(ctx)
		return err
	})
	switch {
	case err != nil:
		return err
	case known:
		log.Info("all servers of the stream sync every change to disk before they acknowledge it")
	default:
		log.Warn("whether NATS syncs every change to disk before it acknowledges it is not known, since this account may not ask: check that " +
			"the jetstream block of each server has sync_interval: always, or let the account import $SYS.REQ.SERVER.PING.JSZ")
	}
	return nil
}

// runDoor serves a copy of a site that another notifier writes.
func (d *daemon) runDoor(ctx context.Context, env *command.Env) (err error) {
	stream, end, err := d.log.open(ctx, d.site.Base, env.Log)
	if err != nil {
		return err
	}
	defer end()
	journal, err := server.OpenJournal(ctx, d.site.State, server.JournalOptions{Base: d.site.Base, Retention: d.site.JournalOptions(env.Log).Retention, Wait: journalWait, Log: env.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	r := newReplica("door", d.site.Base, d.site.State, journal, stream, env.Log)
	return d.serveCopy(ctx, r, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
}

// A told is what a notifier has that writes the log in NATS.
type told struct {
	stream *jetlog.Stream
	log    *jetlog.Log
	sharer *jetlog.Sharer
	lost   <-chan error // another notifier has the lease

	earlier *jetlog.Contents // for differences; nil if there are none
}

// share makes pages and archives, which may be nil, those of all doors, by the evidence of what is public. What a task or a scan withdraws
// is gone from NATS when that is answered. Of earlier versions so many bytes are kept.
func (w *told) share(pages content.Pages, made *archive.Maker, earlier int64, k *evidence.Keeper, tasks map[string]func(context.Context, url.Values) (any, error)) {
	w.sharer = &jetlog.Sharer{Stream: w.stream, Journal: w.log.Journal, Pages: pages, Earlier: earlier, Logger: w.log.Logger}
	if pages != nil {
		w.sharer.Until, w.sharer.Closed, w.sharer.Every = k.Until, k.Closed, k.For/8
		k.Changed(w.sharer.Changed)
	}
	if made != nil {
		w.sharer.Archives, made.Log, made.Told = made, jetlog.Shared{Log: w.log}, w.log.Told
	}
	purge := tasks["purge"]
	tasks["purge"] = func(ctx context.Context, q url.Values) (any, error) {
		p, err := purge(ctx, q)
		if purged, ok := p.(forms.Purged); ok && err == nil {
			err = w.withdraw(ctx, purged.URL)
		}
		return p, err
	}
}

// withdraw waits until no door delivers bytes of pages that are withdrawn, and the stream does not say any more what they were; of the latter
// only of the page purged, if there is one.
func (w *told) withdraw(ctx context.Context, purged string) error {
	if w.sharer.Pages != nil {
		if err := w.sharer.Purge(ctx, purged); err != nil {
			return err
		}
	}
	return w.log.Forget(ctx, purged)
}

// runWriter stands by until this notifier may write the log, and then publishes the site; and so again whenever another notifier has
// gone on with the log.
func (d *daemon) runWriter(ctx context.Context, env *command.Env, tokens, adminTokens []string) error {
	stream, end, err := d.log.open(ctx, d.site.Base, env.Log)
	if err != nil {
		return err
	}
	defer end()
	if err := checkDurable(ctx, stream, env.Log); err != nil {
		return err
	}
	for {
		err := d.standByAndWrite(ctx, env, stream, tokens, adminTokens)
		if !errors.Is(err, jetlog.ErrFenced) && !errors.Is(err, jetlog.ErrDiverged) {
			return err
		}
		env.Log.Warn("this notifier stands by", "err", err)
		if !pause.For(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// standByAndWrite does so once. The error wraps jetlog.ErrFenced or jetlog.ErrDiverged if another notifier has gone on with the log.
func (d *daemon) standByAndWrite(ctx context.Context, env *command.Env, stream *jetlog.Stream, tokens, adminTokens []string) (err error) {
	o := d.site.JournalOptions(env.Log)
	o.Wait = journalWait
	at := protocol.Cursor{}
	err = patiently(ctx, env.Log, func() (err error) {
		at, err = stream.Head(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if !at.IsZero() {
		o.Published, o.Manifest = "", "" // the stream says what was told, and not the file that the last writer has left
	}
	journal, err := server.OpenJournal(ctx, d.site.State, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	keeping, release := context.WithCancel(ctx)
	lost := make(chan error, 1)
	held := false
	defer func() {
		release()
		if held {
			<-lost
		}
	}()
	r := newReplica("standby", d.site.Base, d.site.State, journal, stream, env.Log)
	err = d.serveCopy(ctx, r, func(ctx context.Context) error {
		lease := stream.Lease(hostAndProcess(), max(pause.AtMost(leaseTime, d.site.Hurry), time.Second))
		if err := lease.Acquire(ctx); err != nil {
			return nil
		}
		held = true
		go func() {
			lost <- lease.Keep(keeping)
			close(lost)
		}()
		return catchUp(ctx, r.log, lost)
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	if _, err := stream.Durable(ctx); errors.Is(err, jetlog.ErrUnsafe) { // a server may have been replaced since the start
		return err
	}
	if err := patiently(ctx, env.Log, func() error { return takeOver(ctx, stream.Files(), journal) }); err != nil {
		return err
	}
	env.Log.Info("this notifier writes the log of the site now", "at", journal.Head().String())
	w := &told{stream: stream, log: &jetlog.Log{Stream: stream, Journal: journal, Logger: env.Log}, lost: lost}
	return d.publish(ctx, env, journal, w, tokens, adminTokens)
}

// catchUp waits until a log has what was told last.
func catchUp(ctx context.Context, log *jetlog.Log, lost <-chan error) error {
	for {
		at, err := log.Stream.Head(ctx)
		if err == nil && (at.IsZero() || at == log.Head()) {
			return nil
		}
		select {
		case err := <-lost:
			return err
		default:
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return nil
		}
	}
}

// toldMoments returns what the site of a log offers, for queries, once all of it was told: a reader may go on from there at another door.
func toldMoments(log *jetlog.Log) func(context.Context) (*content.Moment, error) {
	moments := server.Moments(log.Journal)
	return func(ctx context.Context) (*content.Moment, error) {
		if err := log.Told(ctx, log.Journal.Head()); err != nil { // it may take long, and nothing should be open meanwhile
			return nil, err
		}
		m, err := moments(ctx)
		if err != nil {
			return nil, err
		}
		if err := log.Told(ctx, m.Cursor); err != nil {
			m.Close()
			return nil, err
		}
		return m, nil
	}
}

// own runs the writer of the log.
func (w *told) own(ctx context.Context, own func(what string, run func() error)) {
	own("log", func() error { return w.log.Tell(ctx, false) })
	own("contents", func() error { return w.sharer.Run(ctx) })
	if w.earlier != nil {
		own("earlier versions", func() error { return w.earlier.Follow(ctx) })
	}
	own("lease", func() error {
		select {
		case err := <-w.lost:
			return err
		case <-ctx.Done():
			return nil
		}
	})
}

// announce announces pages, and waits until what the answer names was told.
func (w *told) announce(announce func(context.Context, []protocol.Announcement) (protocol.Announced, error)) func(context.Context, []protocol.Announcement) (protocol.Announced, error) {
	return func(ctx context.Context, list []protocol.Announcement) (protocol.Announced, error) {
		a, err := announce(ctx, list)
		if err == nil {
			err = w.log.Told(ctx, a.Cursor)
		}
		if errors.Is(err, protocol.ErrAway) {
			err = errors.Join(content.ErrNotReady, err) // they are stored, and may be sent again
		}
		return a, err
	}
}

// owning returns a context, a function that runs what ends with it, and one that waits for all of that. When one of them fails, all
// end, and wait returns its error; errors after that, or after ctx has ended, are dropped.
func owning(ctx context.Context) (inner context.Context, own func(what string, run func() error), wait func() error) {
	inner, stop := context.WithCancelCause(ctx)
	var owned sync.WaitGroup
	own = func(what string, run func() error) {
		owned.Go(func() {
			if err := run(); err != nil {
				stop(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	wait = func() error {
		owned.Wait()
		defer stop(nil)
		if cause := context.Cause(inner); cause != nil && !errors.Is(cause, context.Canceled) {
			return cause
		}
		return nil
	}
	return inner, own, wait
}

// listeners listens for the doors, and for admin if there is to be such a page.
func (d *daemon) listeners() (doors, admin net.Listener, err error) {
	if doors, err = net.Listen("tcp", d.listen); err != nil {
		return nil, nil, fmt.Errorf("--listen: %w", err)
	}
	if d.admin == "" {
		return doors, nil, nil
	}
	if admin, err = net.Listen("tcp", d.admin); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--admin: %w", err), doors.Close())
	}
	return doors, admin, nil
}
