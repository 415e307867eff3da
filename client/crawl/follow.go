package crawl

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/seed"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// follow begins to follow a site that may tell of itself. The run's lock is
// held. Its pages wait until it has told something for the first time: a cursor that
// is stored says that it has, and a site that stays quiet tells nothing more.
func (r *run) follow(src *source) {
	st := src.site
	st.first = r.Once || src.Cursor.IsZero() && src.Polled.IsZero()
	if src.heard = !r.Once && !src.Cursor.IsZero(); !src.heard {
		r.busy++
		r.firsts++
	}
	r.spoke(src)
	r.group.Go(func() {
		s := r.followed(src)
		var guesses []collection.Source
		r.mu.Lock()
		if s.Fault != "" {
			if guesses = r.guessed(st); len(guesses) > 0 {
				r.busy++
			}
		}
		if !src.heard {
			r.busy--
			r.firsts--
		}
		src.Source, src.heard, st.first = s, false, false
		if !r.Once || s.Status != http.StatusOK {
			r.plan(src, s.At)
		}
		r.spoke(src) // in a crawl that ends, what it has said stands until then
		r.dirtySources[src] = struct{}{}
		r.rouse()
		r.mu.Unlock()
		if len(guesses) > 0 {
			r.in.put(read{sources: guesses, busy: 1})
		}
	})
}

// How many steps a site may tell at once, and a second from then on (C32). A
// step has up to a thousand changes; each is a transaction.
const (
	stepBurst = 2000
	stepRate  = 100
)

// When a site is looked at again that was too large: twice as late each time.
const (
	quotaAgain = time.Hour
	lastQuota  = 24 * time.Hour
)

// maxFirsts is how many sites at a time may be asked for a manifest that they
// have not shown yet: nearly all have none.
const maxFirsts = 300

// heard says that a site that is followed has told something, or does not: it
// need not be waited for any longer.
func (r *run) heard(src *source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !src.heard {
		src.heard, src.site.first = true, false
		r.busy--
		r.firsts--
		r.rouse()
	}
}

// followed follows a site until it turns out not to tell of itself, or the
// crawl ends, or, in a crawl that is to end, until its manifest was read.
func (r *run) followed(src *source) collection.Source {
	r.mu.Lock()
	st, s, described := src.site, src.Source, src.described
	r.mu.Unlock()
	allow := func(u string) error { return r.allowed(st, u) }
	t := r.Harvester.Checked(st.Origin, allow)
	from := &client.Source{Base: s.URL, Discovery: described, UserAgent: r.Harvester.Agent, Poll: cmp.Or(max(r.ManifestEvery, 0), manifestEvery), AskEvery: r.AskEvery, Hurry: r.Hurry,
		NoStream: r.NoStreams, NoChanges: r.NoChanges, Log: r.Log, HTTP: &http.Client{Transport: t}, Allow: allow}
	from.Found = func(d *protocol.Discovery) { r.welcomed(st, d) }
	from.Refused = func(status int, header http.Header) { r.Harvester.Refused(st.Origin, status, header) }
	from.Every = func() time.Duration { return r.nextLook(st) }
	r.listen(from, src)
	cursor, under := s.Cursor, r.under(st)
	switch stands := s.Digest == under && s.Held.IsZero(); { // else it may name what is not known, or say again that most is gone
	case stands:
		from.ETag, from.LastModified = s.ETag, s.LastModified
	case r.Once:
		cursor = protocol.Cursor{}
	}
	from.Once = r.Once
	note := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		src.Source = s
		r.spoke(src)
		r.dirtySources[src] = struct{}{}
	}
	left, last := float64(stepBurst), time.Now()
	var offer *client.OfferError
	var elsewhere *client.ElsewhereError
	over := s.Fails // in a row, if it was too large before
	for step, err := range client.Follow(r.ctx, from, cursor) {
		now := time.Now()
		// A site that never stops talking is listened to at a bounded pace: its
		// connection fills up, and what it says of a page twice is one debt.
		left, last = min(stepBurst, left+stepRate*now.Sub(last).Seconds())-1, now
		if left < 0 {
			pause.For(r.ctx, time.Duration(-left/stepRate*float64(time.Second)))
		}
		switch {
		case r.ctx.Err() != nil:
			return s
		case errors.As(err, &offer):
			if r.Only != "" {
				r.fail(err) // which says it
			} else {
				r.log.Warn("site is not followed", "site", st.Origin, "err", err)
			}
			s.Polled, s.Fault, s.At = now, err.Error(), now.Add(cmp.Or(max(r.SourceAgain, 0), sourceAgain))
			s.Fails++
			return s
		case errors.As(err, &elsewhere) && s.Changed.IsZero(): // which time does not mend
			if r.Only != "" {
				r.fail(elsewhere)
			} else {
				r.log.Warn("site does not tell of its pages here", "site", st.Origin, "err", elsewhere)
			}
			s.Polled, s.Status, s.Fault, s.At = now, 0, elsewhere.Error(), now.Add(cmp.Or(max(r.SourceAgain, 0), sourceAgain))
			s.Fails++
			return s
		case err != nil:
			r.judging.Lock()
			st.dates = nil // of a look that broke off
			r.judging.Unlock()
			r.log.Debug("follow site", "site", st.Origin, "err", err)
			s.Polled, s.Status, s.Fault = now, 0, err.Error()
			s.Fails++
			var status *client.StatusError
			if errors.As(err, &status) {
				s.Status = status.Status
			}
			var network *url.Error // else something came, and it is no manifest
			passes := s.Status >= 500 || s.Status == http.StatusTooManyRequests || s.Status == 0 && errors.As(err, &network)
			if r.Only == "" && (passes || !s.Changed.IsZero()) {
				r.mu.Lock()
				r.ails(st, err.Error())
				r.mu.Unlock()
			}
			if r.Only != "" {
				r.log.Warn("follow site", "err", err)
			} else if r.Once || s.Changed.IsZero() { // it has never told anything
				if s.At = now.Add(cmp.Or(max(r.SourceAgain, 0), sourceAgain)); passes {
					s.At = now.Add(r.hurried(min(firstRetry<<min(s.Fails-1, 16), lastRetry)))
				}
				return s
			}
			// It is not believed to tell, until it tells again; but one whose manifest can be
			// looked at is listened to by that, though another door is shut.
			var at *client.DoorError
			if errors.As(err, &at) && at.Door != client.Manifest && !s.Cursor.IsZero() && r.Only == "" {
				s.Door, s.Fault = string(client.Manifest), ""
			}
			note()
			r.heard(src)
			continue
		}
		s.Polled, s.Status, s.Fails, s.Fault, s.Changed, s.Door = now, http.StatusOK, 0, "", now, string(step.Door)
		if _, err := r.apply(st, s.ID, step, signalOf(step.Door)); err != nil {
			var quota *collection.QuotaError
			if !errors.As(err, &quota) {
				r.fail(err)
				return s
			}
			again := r.hurried(min(quotaAgain<<min(over, 16), lastQuota))
			r.log.Error("site is too large to be followed: its copy stays as it is; --max-pages and --max-state set the limits", "site", st.Origin, "err", err, "again", again)
			s.Status, s.Fault, s.Fails, s.At = 0, err.Error(), over+1, now.Add(again)
			return s
		}
		if !step.Cursor.IsZero() {
			over = 0
			s.Cursor = step.Cursor
		}
		if step.Discovery != "" {
			r.mu.Lock()
			src.described = step.Discovery
			r.mu.Unlock()
		}
		if step.ETag != "" || step.LastModified != "" {
			s.ETag, s.LastModified, s.Digest = step.ETag, step.LastModified, under
		}
		r.mu.Lock()
		r.answers(st)
		r.mu.Unlock()
		note() // first: by whom a site tells is asked as soon as nobody waits for it
		if !r.Once {
			r.heard(src)
		}
	}
	if now := time.Now(); r.Once && r.ctx.Err() == nil { // it was read, or stands as it was
		s.Polled, s.Status, s.Fails, s.Fault, s.At = now, http.StatusOK, 0, "", now
		r.count.Heard.Add(1)
		r.mu.Lock()
		r.answers(st)
		r.mu.Unlock()
	}
	return s
}

// under names the rules by which a site's pages are admitted.
func (r *run) under(st *site) protocol.Digest {
	rules := r.Seeder.Rules
	rules.Hosts, rules.DomainSuffixes = nil, nil // which are about the site as a whole
	wanted := r.Seeder.Admit(seed.Ref{URL: st.Origin + "/", Kind: seed.Listed}).OK
	return r.Collection.Under(fmt.Sprintf("%v %+v %+v", wanted, rules, r.Filter))
}

// allowed says whether a site may be asked for a URL of its own now, for
// whoever asks by himself.
func (r *run) allowed(st *site, u string) error {
	r.mu.Lock()
	rule := st.silent
	r.mu.Unlock()
	if rule == "" {
		rule = r.Seeder.Forbids(u)
	}
	if rule != "" {
		return &forbiddenError{u, rule}
	}
	return nil
}

// A forbiddenError is why something is not asked for.
type forbiddenError struct{ url, rule string }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("%.200s is not asked for: %s", e.url, e.rule)
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

// smallPatience is how long a document may take, with the wait for its site's turn.
const smallPatience = 15 * time.Minute
