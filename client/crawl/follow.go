package crawl

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/client/crawl/internal/moved"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// followers follow the sites that may have a manifest, each in a goroutine of its own, and know what sites offer.
type followers struct {
	c             *setup
	work          *work
	in            *inbox
	sites         *siteTable
	judge         *judgement.Judge
	plan          pollPlan
	announcements *announcements
	count         *counters

	keep *upkeep // of a copy, whose failures end the run, or are retried; else nil
	once bool    // each site is followed only until its manifest was read

	publishing int // sites that publish their changes now; guarded by the work's lock, as is firsts
	firsts     int // followed sites that have not announced anything yet
}

func (f *followers) alone() bool { return f.keep != nil }

// A pollPlan says when a manifest is polled again.
type pollPlan interface {
	prices() bool // the price of a visit decides which pages are fetched

	// nextPoll returns the time from the last poll of a site's manifest to the next one. The work's lock is held.
	nextPoll(st *site, last time.Time) time.Duration

	// publishes is called when it may have changed whether a site publishes its changes now. The work's lock is held.
	publishes(st *site)
}

// follow starts to follow a site that may have a manifest. The work's lock is held.
// The site's pages wait for its first announcement, unless a stored cursor shows
// that there was one: a quiet site might announce nothing more.
func (f *followers) follow(src *source) {
	work := f.work
	st := src.site
	if f.once || src.Cursor.IsZero() && src.Polled.IsZero() {
		src.follow.first = true
		st.firsts++
	}
	if src.follow.announced = !f.once && !src.Cursor.IsZero(); !src.follow.announced {
		work.busy++
		f.firsts++
	}
	f.updatePublishing(src)
	ctx, end := context.WithCancel(work.ctx)
	src.follow.end = end
	work.group.Go(func() {
		s := f.followed(ctx, src)
		var guesses []collection.Source
		work.Lock()
		if s.Fault != "" && !f.alone() && work.ctx.Err() == nil {
			if guesses = f.sites.guessed(st); len(guesses) > 0 {
				work.busy++
			}
		}
		if !src.follow.announced {
			work.busy--
			f.firsts--
		}
		src.Source, src.follow.announced, src.follow.end = s, false, nil
		src.noLongerFirst()
		ended := ctx.Err() != nil && work.ctx.Err() == nil // by a person, see sources.steer
		if end(); !f.once || s.Status != http.StatusOK || ended {
			f.sites.plan(src, s.At)
		}
		f.updatePublishing(src) // with Once it stays busy, and so counts as publishing until the end
		f.sites.dirtySources[src] = true
		work.rouse()
		work.Unlock()
		if len(guesses) > 0 {
			f.in.Put(result{sources: guesses, busy: 1})
		}
	})
}

// A token bucket for the steps of a site: stepBurst at once, then stepRate a second
// (C32). A step has up to a thousand changes, and is one transaction.
const (
	stepBurst = 2000
	stepRate  = 100
)

// A site that is too large is retried after quotaAgain, doubled each time up to lastQuota.
const (
	quotaAgain = time.Hour
	lastQuota  = 24 * time.Hour
)

// maxFirsts is how many sites may be asked for a manifest for the first time at once.
// Nearly all sites have none.
const maxFirsts = 300

// announced records that a followed site has announced something, or has failed to:
// nothing needs to wait for it any longer.
func (f *followers) announced(src *source) {
	f.work.Lock()
	defer f.work.Unlock()
	if !src.follow.announced {
		src.follow.announced = true
		src.noLongerFirst()
		f.work.busy--
		f.firsts--
		f.work.rouse()
	}
}

// from returns a client.Source with the settings that all requests to a source share.
func (f *followers) from(src *source) *client.Source {
	f.work.Lock()
	st, base, described := src.site, src.URL, src.follow.described
	f.work.Unlock()
	allow := func(u string) error { return f.sites.allowed(st, u) }
	return &client.Source{Base: base, Discovery: described, UserAgent: f.c.Harvester.Options.Agent, Token: f.c.Token, MaxPage: f.c.mostBytes,
		HTTP: &http.Client{Transport: f.c.Harvester.Checked(st.Origin, allow)}, Allow: allow,
		Found: func(d *protocol.Discovery) { f.welcomed(st, d) }}
}

// followed follows a site until it turns out to have no manifest, or ctx
// ends or, with Once, the manifest was read. It returns the source's new record.
func (f *followers) followed(ctx context.Context, src *source) collection.Source {
	c, work := f.c, f.work
	work.Lock()
	st, s, described, ip, was := src.site, src.Source, src.follow.described, src.site.IP, f.sites.moved[src.URL]
	away := &moved.Watch{Moved: st.Found, Harvester: c.Harvester, Seeder: c.Seeder, Suits: c.Suits, Manifest: src.URL, Hurry: c.Hurry, Log: c.Log, Crawled: f.sites.crawled}
	if is, copied := c.Collection.Copy(); copied {
		away.Moved = is.Moved
	}
	if was != nil {
		c.Seeder.Widen(st.Origin) // whoever has set the rules meanwhile
	}
	work.Unlock()
	from := f.from(src)
	from.Poll, from.AskEvery, from.Hurry, from.NoStream, from.NoChanges, from.Log = c.every(collection.ManifestRDF), c.AskEvery, c.Hurry, c.NoStreams, c.NoChanges, c.Log
	from.Refused = func(status int, header http.Header) { c.Harvester.Refused(st.Origin, status, header) }
	from.Every = func(last time.Time) time.Duration {
		work.Lock()
		defer work.Unlock()
		return f.plan.nextPoll(st, last)
	}
	f.listen(from, src)
	cursor, under := s.Cursor, c.under(st.Origin)
	switch stands := s.Digest == under && s.Held.IsZero(); { // else an unchanged manifest, too, may add pages or confirm deletions
	case was != nil, s.Changed.IsZero(): // what is stored of the former address is to move, or has moved away from here and may be back
		cursor = protocol.Cursor{}
	case stands:
		from.ETag, from.LastModified = s.ETag, s.LastModified
	case f.once, s.Digest != under: // pages that earlier rules refused were not stored
		cursor = protocol.Cursor{}
	}
	from.Once, from.Doubtful = f.once, s.Doubtful
	current := false
	note := func(announced bool) {
		work.Lock()
		defer work.Unlock()
		src.follow.current = current
		if announced {
			f.sites.recovered(st)
		}
		src.Source, src.follow.described = s, described
		f.updatePublishing(src)
		f.sites.dirtySources[src] = true
	}
	leave := func(says string, err error) collection.Source {
		if f.alone() {
			work.fail(err) // and Run returns it
		} else {
			c.Log.Warn(says, "site", st.Origin, "err", err)
		}
		s.Polled, s.Fault = time.Now(), err.Error()
		s.At = s.Polled.Add(c.SourceAgain)
		s.Fails++
		return s
	}
	left, last := float64(stepBurst), time.Now()
	var offer *client.OfferError
	var elsewhere *client.ElsewhereError
	over := s.Fails // how often in a row the site was too large
	for step, err := range client.Follow(ctx, from, cursor) {
		now := time.Now()
		// A site that sends without pause is read at a bounded rate: its connection
		// fills up, and repeated changes of one page are one pending fetch.
		left, last = min(stepBurst, left+stepRate*now.Sub(last).Seconds())-1, now
		if left < 0 {
			pause.For(ctx, time.Duration(-left/stepRate*float64(time.Second)))
		}
		var to *moved.Error
		if f.alone() || !s.Changed.IsZero() { // else it was never followed at this address
			to = away.Check(work.ctx, ip, err)
		}
		switch {
		case to != nil && f.alone():
			work.fail(to)
			return s
		case ctx.Err() != nil:
			return s
		case errors.As(err, &offer):
			return leave("site is not followed", err)
		case to != nil:
			f.goOver(src, to)
			s.Status = 0
			s = leave("site is followed at its new address", to)
			s.At = s.Polled.Add(c.hurried(overAgain)) // should it not be read there: the pages that have not moved still count as those of this address
			return s
		case errors.As(err, &elsewhere) && s.Changed.IsZero(): // a permanent failure
			s.Status = 0
			return leave("site cannot be followed at this address", elsewhere)
		case err != nil:
			current = false
			f.judge.BrokeOff(st.standing)
			c.Log.Debug("follow site", "site", st.Origin, "err", err)
			s.Polled, s.Status, s.Fault = now, 0, err.Error()
			s.Fails++
			var status *client.StatusError
			if errors.As(err, &status) {
				s.Status = status.Status
			}
			var network *url.Error // else there was a response, and it is no manifest, unless it names parts
			passes := s.Status >= 500 || s.Status == http.StatusTooManyRequests || s.Status == 0 && (errors.As(err, &network) || errors.Is(err, protocol.ErrPart))
			if !f.alone() && (passes || !s.Changed.IsZero()) {
				work.Lock()
				f.sites.failed(st, err.Error())
				work.Unlock()
			}
			if f.alone() {
				c.Log.Warn("follow site", "err", err)
			} else if f.once || s.Changed.IsZero() { // it never had a manifest
				if s.At = now.Add(c.SourceAgain); passes {
					s.At = now.Add(c.hurried(min(firstRetry<<min(s.Fails-1, 16), lastRetry)))
				}
				return s
			}
			// The site counts as silent until it announces something again. If a door
			// other than the manifest fails, its manifest is polled meanwhile.
			var at *client.DoorError
			if errors.As(err, &at) && at.Door != client.Manifest && !s.Cursor.IsZero() && !f.alone() {
				s.Door, s.Fault = string(client.Manifest), ""
			}
			note(false)
			f.announced(src)
			continue
		}
		s.Polled, s.Status, s.Fails, s.Fault, s.Changed, s.Door = now, http.StatusOK, 0, "", now, string(step.Door)
		if _, err := f.announcements.apply(st, s.ID, step, signalOf(step.Door)); err != nil {
			var quota *collection.QuotaError
			if !errors.As(err, &quota) {
				work.fail(err)
				return s
			}
			again := c.hurried(min(quotaAgain<<min(over, 16), lastQuota))
			c.Log.Error("site is too large to be followed: its copy stays as it is; --max-pages and --max-state set the limits", "site", st.Origin, "err", err, "again", again)
			s.Status, s.Fault, s.Fails, s.At = 0, err.Error(), over+1, now.Add(again)
			return s
		}
		if !step.Cursor.IsZero() {
			over = 0
			s.Cursor, s.Doubtful = step.Cursor, step.Doubtful
		}
		described = cmp.Or(step.Discovery, described)
		if step.Whole || step.ETag != "" || step.LastModified != "" { // the whole may have come as an archive
			s.ETag, s.LastModified, s.Digest = step.ETag, step.LastModified, under
		}
		current = !step.Behind && judgement.LastOf(&step)
		note(true) // before announced, after which st.sources.publisher is read
		if was != nil && judgement.LastOf(&step) {
			work.Lock()
			if f.sites.moved[src.URL] == was { // else another site has moved here meanwhile, and the manifest is read again
				delete(f.sites.moved, src.URL) // all that can move has moved
				was.Changed, f.sites.dirtySources[was] = time.Time{}, true
				if was.index >= 0 {
					f.sites.plan(was, now.Add(c.SourceAgain))
				}
			}
			work.Unlock()
			was = nil
		}
		if !f.once {
			f.announced(src)
		}
		if f.alone() {
			f.keep.look(time.Now())
		}
	}
	if now := time.Now(); f.once && ctx.Err() == nil { // it was read, or is unchanged
		s.Polled, s.Status, s.Fails, s.Fault, s.At = now, http.StatusOK, 0, "", now
		f.count.Heard.Add(1)
		work.Lock()
		f.sites.recovered(st)
		work.Unlock()
	}
	return s
}

// overAgain is when a site that has moved is asked again at its former address, unless it was read at the new one by then: the process may
// have ended before.
const overAgain = time.Hour

// goOver makes the crawl follow a site at the address to which it has moved. What is stored of it moves when the manifest there is
// read from its beginning, see collection.ApplyOptions.
func (f *followers) goOver(src *source, to *moved.Error) {
	url := to.To + strings.TrimPrefix(src.URL, to.From)
	origin := protocol.Origin(url)
	f.work.Lock()
	under := f.sites.moved[url] == src // it is being read, or will be
	f.sites.moved[url] = src
	var at *source
	if st := f.sites.byOrigin[origin]; st != nil {
		at = st.sources.byURL[url]
	}
	switch {
	case at == nil:
		f.work.busy++
	case at.follow.end != nil && !under:
		at.follow.end()
	case at.follow.end == nil && (at.busy || at.index >= 0):
		f.sites.plan(at, time.Now())
	}
	f.work.Unlock()
	if at == nil {
		f.in.Put(result{sources: []collection.Source{{Kind: collection.ManifestRDF, URL: url}}, busy: 1})
	}
}

// former returns the base URL from which the site of a manifest has moved, until the manifest was read; empty: it has not.
func (t *siteTable) former(st *site, manifest uint64) string {
	t.work.Lock()
	defer t.work.Unlock()
	if src := st.sources.of(manifest); src != nil && t.moved[src.URL] != nil {
		return baseOf(t.moved[src.URL].URL)
	}
	return ""
}

func signalOf(d client.Door) collection.Signal {
	switch d {
	case client.Stream:
		return collection.ByStream
	case client.Changes:
		return collection.ByChanges
	}
	return collection.ByManifest
}

// updatePublishing records whether a source publishes its site's changes now. The work's
// lock is held.
func (f *followers) updatePublishing(src *source) {
	st, tells := src.site, src.busy && src.Kind == collection.ManifestRDF && !src.Cursor.IsZero() && src.Fault == ""
	switch {
	case tells:
		if st.sources.publisher == nil {
			f.publishing++
		}
		st.sources.publisher = src
	case st.sources.publisher == src:
		st.sources.publisher = nil
		f.publishing--
	default:
		return
	}
	f.plan.publishes(st)
}

// welcomed applies a site's welcome, see harvest. If there are several sites on a host, one without
// a welcome does not revoke that of another.
func (f *followers) welcomed(st *site, d *protocol.Discovery) {
	f.work.Lock()
	before := st.welcomedBy
	if d.Welcome != nil {
		st.welcomedBy = d.Base
	}
	f.work.Unlock()
	switch {
	case d.Welcome != nil:
		f.c.Harvester.Welcome(st.Origin, d.Welcome.Rate, d.Welcome.Connections)
	case before == d.Base && before != "":
		f.c.Harvester.Unwelcome(st.Origin)
	}
}
