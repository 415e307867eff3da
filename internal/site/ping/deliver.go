package ping

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

const (
	mostVerifying  = 8  // at a time
	mostDelivering = 16 // at a time
	mostBodies     = 2  // contents of topics in memory for delivery

	// topicAgain is the wait before a topic that could not be read is read again.
	topicAgain = time.Minute
)

// A round is the state of Run's loop.
type round struct {
	h      *Hub
	at     protocol.Cursor // the position that subscribers shall have
	moveAt time.Time       // when to update at; zero if it is current
	topics map[string]content
	bodies map[protocol.Digest]int // number of deliveries of each in flight
	failed map[string]time.Time    // topics, and when to read them again

	busy                  map[string]bool // subscriptions with a verification or delivery in flight
	verifying, delivering int
	done                  chan finished
	owned                 sync.WaitGroup
}

// finished says that a verification or delivery has ended.
type finished struct {
	id        string
	verifying bool
	body      protocol.Digest // of the delivery
}

// Run verifies and delivers until ctx ends; then it returns nil, once requests
// in flight have been answered or 5 s have passed. It returns an error if the
// configuration is wrong or the journal is closed; any other failure is
// logged, shown in Status and retried.
func (h *Hub) Run(ctx context.Context) error {
	if err := h.init(); err != nil {
		return err
	}
	h.running.Lock()
	defer h.running.Unlock()
	defer (&fetch.Client{Transport: h.via}).CloseIdleConnections()
	_, err := h.subs.list()
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	r := &round{h: h, topics: make(map[string]content), bodies: make(map[protocol.Digest]int), failed: make(map[string]time.Time),
		busy: make(map[string]bool), done: make(chan finished, mostVerifying+mostDelivering)}
	news, seen := make(chan struct{}, 1), h.Options.Journal.Head()
	r.owned.Go(func() {
		defer stop()
		err = r.listen(ctx, seen, news)
	})
	h.subs.deny()
	r.moveAt = time.Now()
	for ctx.Err() == nil {
		at := r.turn(ctx)
		t := time.NewTimer(max(0, time.Until(at)))
		if at.IsZero() {
			t.Stop()
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-h.kick:
		case <-news:
			if r.moveAt.IsZero() {
				r.moveAt = time.Now().Add(h.Options.debounce())
			}
		case f := <-r.done:
			delete(r.busy, f.id)
			if f.verifying {
				r.verifying--
			} else {
				r.delivering--
				if r.bodies[f.body]--; r.bodies[f.body] == 0 {
					delete(r.bodies, f.body)
				}
			}
		}
		t.Stop()
	}
	stop()
	r.owned.Wait()
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// listen signals news when the journal has changes after seen.
func (r *round) listen(ctx context.Context, seen protocol.Cursor, news chan<- struct{}) error {
	for {
		err := r.h.Options.Journal.Wait(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, fs.ErrClosed):
			return err
		case err != nil:
			pause.For(ctx, again)
		}
		seen = r.h.Options.Journal.Head() // before the signal, so that no change is missed
		pause.Wake(news)
	}
}

// turn starts the work that is due, and returns the time of the next work unless
// an event comes first; the zero time if there is none.
func (r *round) turn(ctx context.Context) (next time.Time) {
	h, o := r.h, &r.h.Options
	now := time.Now()
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if !r.moveAt.IsZero() && over(r.moveAt, now, o.debounce()) {
		head := o.Journal.Head()
		r.at, r.moveAt = head, time.Time{}
		if o.Published != nil {
			if r.at = o.Published(); r.at != head {
				r.moveAt = now.Add(o.debounce())
			}
		}
	}
	if !r.moveAt.IsZero() {
		sooner(r.moveAt)
	}
	ids, _ := h.subs.list()                         // Run has loaded them
	needed, lacking := make(map[string]bool), false // topics; room for another
	for id, s := range ids {
		switch {
		case r.busy[id]:
			needed[s.Topic] = true
		case s.Want != nil:
			if r.verifying < mostVerifying {
				r.verifying++
				at := r.at
				r.start(finished{id: id, verifying: true}, func() { h.verify(ctx, id, s, at) })
			}
		case !s.active(now):
			if err := h.subs.expire(id); err != nil {
				o.log().Error("hub: an expired subscription could not be deleted", "err", err)
				sooner(now.Add(again))
			}
		default:
			sooner(s.Until)
			if r.at.IsZero() || s.Cursor == r.at {
				continue
			}
			if !over(s.RetryAt, now, longestHint) {
				sooner(s.RetryAt)
				continue
			}
			c, retry, ok := r.content(ctx, s.Topic)
			switch {
			case !ok && retry.IsZero():
				lacking = true
			case !ok:
				sooner(retry)
			case c.digest == s.Digest:
				h.subs.caughtUp(id, c.at)
			case r.delivering == mostDelivering:
				needed[s.Topic] = true
			default:
				needed[s.Topic] = true
				r.delivering++
				r.bodies[c.digest]++
				r.start(finished{id: id, body: c.digest}, func() { h.deliver(ctx, id, s, c) })
			}
		}
	}
	for topic := range r.topics {
		if !needed[topic] {
			delete(r.topics, topic) // it may be large
			if lacking {
				sooner(now)
			}
		}
	}
	return next // if room is still lacking, a delivery in flight will wake Run
}

func (r *round) start(what finished, f func()) {
	r.busy[what.id] = true
	r.owned.Go(func() {
		f()
		r.done <- what
	})
}

// room reports whether another body may be read.
func (r *round) room() bool {
	n := len(r.bodies)
	for _, c := range r.topics {
		if r.bodies[c.digest] == 0 {
			n++
		}
	}
	return n < mostBodies
}

// content returns a topic as of r.at or later; or else when to retry, the zero
// time if there is no room for it now.
func (r *round) content(ctx context.Context, topic string) (c content, retry time.Time, ok bool) {
	if c, ok := r.topics[topic]; ok && c.at == r.at {
		return c, retry, true
	}
	delete(r.topics, topic)
	now := time.Now()
	if at, ok := r.failed[topic]; ok && !over(at, now, topicAgain) {
		return c, at, false
	}
	if !r.room() {
		return c, retry, false
	}
	c, err := r.h.topics.read(ctx, topic, r.at)
	if r.h.topics.setTrouble(topic, err) && ctx.Err() == nil {
		r.h.Options.log().Error("hub: a topic cannot be delivered", "topic", topic, "err", err, "again_in", topicAgain)
	}
	if err != nil {
		r.failed[topic] = now.Add(topicAgain)
		return c, r.failed[topic], false
	}
	delete(r.failed, topic)
	r.topics[topic] = c
	return c, retry, true
}

// verify asks a callback whether it confirms the request made in its name
// (section 5.3), and applies the request if so.
func (h *Hub) verify(ctx context.Context, id string, s subscription, at protocol.Cursor) {
	w := *s.Want
	challenge := rand.Text()
	// The subscriber starts with the content before the confirmation: anything
	// later is delivered.
	var c content
	if w.Mode == "subscribe" {
		if now, err := h.topics.stands(ctx, s.Topic, at); err == nil {
			c = now
		}
	}
	a := answer{}
	req, err := http.NewRequest(http.MethodGet, question(s, w, challenge), nil)
	if err != nil {
		a.err = err
	} else if a = ask(ctx, h.via, req, callTime); errors.Is(a.err, errEnded) {
		return
	}
	ok, log := a.ok() && a.body == challenge, h.Options.log()
	switch err := h.subs.answered(id, w, ok, c); {
	case err != nil:
		log.Error("hub: a subscription could not be stored: it will be verified again", "err", err, "again_in", again)
		pause.For(ctx, again)
	case ok:
		log.Info("hub: "+w.Mode+" confirmed", "topic", s.Topic, "host", s.host())
	case w.Mode != "denied":
		log.Info("hub: "+w.Mode+" not confirmed by its callback", "topic", s.Topic, "host", s.host(), "answer", a.String())
	}
}

// question returns the URL of the verification request to a callback.
func question(s subscription, w want, challenge string) string {
	q := url.Values{"hub.mode": {w.Mode}, "hub.topic": {s.Topic}}
	if w.Mode == "denied" {
		q.Set("hub.reason", "this hub no longer offers the topic")
	} else {
		q.Set("hub.challenge", challenge)
	}
	if w.Mode == "subscribe" {
		q.Set("hub.lease_seconds", strconv.Itoa(int(w.Lease/time.Second)))
	}
	switch {
	case !strings.Contains(s.Callback, "?"):
		return s.Callback + "?" + q.Encode()
	case strings.HasSuffix(s.Callback, "?"):
		return s.Callback + q.Encode()
	}
	return s.Callback + "&" + q.Encode()
}

// deliver sends content to a subscriber (section 7), and records the result.
func (h *Hub) deliver(ctx context.Context, id string, s subscription, c content) {
	req, err := http.NewRequest(http.MethodPost, s.Callback, bytes.NewReader(c.body))
	if err != nil {
		h.Options.log().Error("hub: a stored callback is not a valid URL", "err", err)
		pause.For(ctx, again)
		return
	}
	req.Header.Set("Content-Type", c.contentType)
	req.Header.Set("Link", Links(h.Options.URL, s.Topic))
	if s.Secret != "" {
		req.Header.Set("X-Hub-Signature", signature([]byte(s.Secret), c.body))
	}
	a := ask(ctx, h.via, req, callTime)
	if errors.Is(a.err, errEnded) {
		return
	}
	h.subs.delivered(id, a, c)
}

// signature returns the HMAC-SHA256 of a body, as the receivers of WebSub and of webhooks compare it.
func signature(secret, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// Links returns the value of a Link header that names a topic's hub and its own
// URL (section 4): the web server of the topic should send it too.
func Links(hub, topic string) string {
	return fmt.Sprintf(`<%s>; rel="hub", <%s>; rel="self"`, hub, topic)
}
