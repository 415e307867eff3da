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
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
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

// A content is the content of a topic at one moment.
type content struct {
	at          protocol.Cursor // the content is of this position in the journal, or later
	contentType string
	body        []byte
	digest      protocol.Digest
}

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
	h.mu.Lock()
	err := h.load()
	h.mu.Unlock()
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	r := &round{h: h, topics: make(map[string]content), bodies: make(map[protocol.Digest]int), failed: make(map[string]time.Time),
		busy: make(map[string]bool), done: make(chan finished, mostVerifying+mostDelivering)}
	news, seen := make(chan struct{}, 1), h.Journal.Head()
	r.owned.Go(func() {
		defer stop()
		err = r.listen(ctx, seen, news)
	})
	h.sayGoodbye()
	r.moveAt = h.now()
	for ctx.Err() == nil {
		at := r.turn(ctx)
		t := time.NewTimer(max(0, at.Sub(h.now())))
		if at.IsZero() {
			t.Stop()
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-h.kick:
		case <-news:
			if r.moveAt.IsZero() {
				r.moveAt = h.now().Add(h.debounce())
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
		err := r.h.Journal.Wait(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, fs.ErrClosed):
			return err
		case err != nil:
			pause.For(ctx, again)
		}
		seen = r.h.Journal.Head() // before the signal, so that no change is missed
		pause.Wake(news)
	}
}

// sayGoodbye queues a "denied" for subscribers of topics that are not offered any more.
func (h *Hub) sayGoodbye() {
	h.mu.Lock()
	defer h.mu.Unlock()
	offered := make(map[string]bool)
	for _, t := range h.Topics {
		offered[t] = true
	}
	for id, s := range h.subs {
		if !offered[s.Topic] {
			s.Want = &want{ID: newKey(), Mode: "denied"}
			h.subs[id] = s
		}
	}
}

// turn starts the work that is due, and returns the time of the next work unless
// an event comes first; the zero time if there is none.
func (r *round) turn(ctx context.Context) (next time.Time) {
	h := r.h
	now := h.now()
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if !r.moveAt.IsZero() && over(r.moveAt, now, h.debounce()) {
		head := h.Journal.Head()
		r.at, r.moveAt = head, time.Time{}
		if h.Published != nil {
			if r.at = h.Published(); r.at != head {
				r.moveAt = now.Add(h.debounce())
			}
		}
	}
	if !r.moveAt.IsZero() {
		sooner(r.moveAt)
	}
	h.mu.Lock()
	ids := make(map[string]subscription, len(h.subs))
	for id, s := range h.subs {
		ids[id] = s
	}
	h.mu.Unlock()
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
			h.mu.Lock()
			if err := h.drop(id); err != nil {
				h.log().Error("hub: an expired subscription could not be deleted", "err", err)
				sooner(now.Add(again))
			}
			h.mu.Unlock()
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
				h.caughtUp(id, c.at)
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
	now := r.h.now()
	if at, ok := r.failed[topic]; ok && !over(at, now, topicAgain) {
		return c, at, false
	}
	if !r.room() {
		return c, retry, false
	}
	c, err := r.h.read(ctx, topic, r.at)
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if err != nil {
		if r.h.trouble[topic] != err.Error() && ctx.Err() == nil {
			r.h.log().Error("hub: a topic cannot be delivered", "topic", topic, "err", err, "again_in", topicAgain)
		}
		r.failed[topic], r.h.trouble[topic] = now.Add(topicAgain), err.Error()
		return c, r.failed[topic], false
	}
	delete(r.failed, topic)
	delete(r.h.trouble, topic)
	r.topics[topic] = c
	return c, retry, true
}

func (h *Hub) read(ctx context.Context, topic string, at protocol.Cursor) (content, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	t, b, err := h.Topic(ctx, topic)
	switch {
	case err != nil:
		return content{}, fmt.Errorf("read topic: %w", err)
	case len(b) > maxContent:
		return content{}, tooLong(int64(len(b)))
	}
	return content{at: at, contentType: t, body: b, digest: protocol.Sum(b)}, nil
}

func tooLong(n int64) error {
	return fmt.Errorf("topic has %d bytes, more than %d: offer a shorter topic, such as a feed", n, maxContent)
}

// ReadTopic reads a regular file as a [Hub]'s Topic must: it refuses a file of
// more than maxContent bytes without reading it.
func ReadTopic(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	case st.Size() > maxContent:
		return nil, tooLong(st.Size())
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil { // the file is replaced as a whole, and does not shrink
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return b, nil
}

// stands returns the content of a topic as of the position at or later, without
// its body. It reads a topic once per position, and one topic at a time, since
// strangers decide how often it is called.
func (h *Hub) stands(ctx context.Context, topic string, at protocol.Cursor) (content, error) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-ctx.Done():
		return content{}, ctx.Err()
	}
	c, ok := h.standing[topic]
	if ok && c.at == at && !at.IsZero() {
		return c, nil
	}
	c, err := h.read(ctx, topic, at)
	if c.body = nil; err == nil {
		h.standing[topic] = c
	}
	return c, err
}

// caughtUp moves a subscriber's cursor to at without a delivery, since the content
// there is what it received last. Any later write advances Published and is compared
// then. The cursor is not stored: a restart compares again and finds the same digest.
func (h *Hub) caughtUp(id string, at protocol.Cursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.subs[id]; ok {
		s.Cursor = at
		h.subs[id] = s
	}
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
		if now, err := h.stands(ctx, s.Topic, at); err == nil {
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
	ok := a.ok() && a.body == challenge
	switch err := h.answered(id, w, ok, c); {
	case err != nil:
		h.log().Error("hub: a subscription could not be stored: it will be verified again", "err", err, "again_in", again)
		pause.For(ctx, again)
	case ok:
		h.log().Info("hub: "+w.Mode+" confirmed", "topic", s.Topic, "host", s.host())
	case w.Mode != "denied":
		h.log().Info("hub: "+w.Mode+" not confirmed by its callback", "topic", s.Topic, "host", s.host(), "answer", a.String())
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

// answered applies the wanted change if the callback confirmed it, and else discards it.
func (h *Hub) answered(id string, w want, ok bool, c content) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cur, there := h.subs[id]
	if !there || cur.Want == nil || cur.Want.ID != w.ID {
		return nil // replaced by a newer request
	}
	now := h.now()
	switch cur.Want = nil; {
	case w.Mode == "denied", ok && w.Mode == "unsubscribe", !ok && cur.Until.IsZero():
		err = h.drop(id)
	case ok:
		if !cur.active(now) {
			cur.Since, cur.Cursor, cur.Digest = now, c.at, c.digest
			cur.Failures, cur.RetryAt, cur.Trouble = 0, time.Time{}, ""
		}
		cur.Until, cur.Secret = now.Add(w.Lease), w.Secret
		err = h.keep(id, cur)
	default:
		err = h.keep(id, cur)
	}
	return err
}

// deliver sends content to a subscriber (section 7), and records the result.
func (h *Hub) deliver(ctx context.Context, id string, s subscription, c content) {
	req, err := http.NewRequest(http.MethodPost, s.Callback, bytes.NewReader(c.body))
	if err != nil {
		h.log().Error("hub: a stored callback is not a valid URL", "err", err)
		pause.For(ctx, again)
		return
	}
	req.Header.Set("Content-Type", c.contentType)
	req.Header.Set("Link", Links(h.URL, s.Topic))
	if s.Secret != "" {
		mac := hmac.New(sha256.New, []byte(s.Secret))
		mac.Write(c.body)
		req.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	a := ask(ctx, h.via, req, callTime)
	if errors.Is(a.err, errEnded) {
		return
	}
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	cur, there := h.subs[id]
	if !there {
		return
	}
	switch {
	case a.status == http.StatusGone:
		h.log().Info("hub: subscription ended: its callback answered 410 Gone", "topic", s.Topic, "host", s.host())
		if err := h.drop(id); err != nil {
			h.log().Error("hub: a subscription could not be deleted", "err", err)
		}
		return
	case a.ok():
		cur.Cursor, cur.Digest, cur.DeliveredAt = c.at, c.digest, now
		cur.Failures, cur.RetryAt, cur.Trouble = 0, time.Time{}, ""
		cur.Deliveries++
	default:
		cur.Failures++
		cur.RetryAt, cur.Trouble = now.Add(a.pause(id, cur.Failures, now)), "delivery failed: "+a.String()
	}
	if err := h.keep(id, cur); err != nil {
		h.log().Error("hub: a delivery could not be recorded: a restart would repeat it", "err", err)
		h.subs[id] = cur // the delivery has been made
	}
}

// Links returns the value of a Link header that names a topic's hub and its own
// URL (section 4): the web server of the topic should send it too.
func Links(hub, topic string) string {
	return fmt.Sprintf(`<%s>; rel="hub", <%s>; rel="self"`, hub, topic)
}
