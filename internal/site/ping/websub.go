package ping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A WebSub pings hubs when topics have new content (W3C WebSub, section 7;
// the request is the one that public hubs accept). The hub fetches the topic
// and delivers it. Its methods may be called by many goroutines at once.
//
// Every topic is pinged after any change of the site: the hub compares the content
// that it fetches, and an unneeded ping costs it one request.
type WebSub struct {
	// Journal is the site's. Its notes below "websub/" hold a cursor for each hub
	// and topic.
	Journal *server.Journal

	Hubs   []string // URLs
	Topics []string // URLs, such as of a feed, or of robots.rdf

	// Published returns the position up to which all topics have been written: a
	// topic shows every change up to it, and may show later ones. A hub is pinged
	// only for changes that it will find. Nil means the journal's head, which is
	// right only if topics are generated on request.
	Published func() protocol.Cursor

	// Debounce is how long changes gather before a ping, and the minimum interval
	// between two pings. Zero means 30 s.
	Debounce time.Duration

	HTTP *http.Client // only its Transport is used; nil means http.DefaultTransport
	Log  *slog.Logger // nil means silence

	once    sync.Once
	initErr error
	pings   []*pinger
}

// A pinger pings one hub for one topic.
type pinger struct {
	place
	w          *WebSub
	hub, topic string
}

// A PingStatus is the status of the pings to one hub for one topic.
type PingStatus struct {
	Hub   string `json:"hub"`
	Topic string `json:"topic"`

	Cursor   protocol.Cursor `json:"cursor"`             // the hub has been pinged for all changes up to it
	Owed     bool            `json:"owed"`               // there are changes after it
	Pings    int64           `json:"pings"`              // accepted pings, in total
	PingedAt time.Time       `json:"pinged_at,omitzero"` // time of the newest of them

	// Status is that of the newest response, 0 if there was none. Trouble says
	// for people why pings fail now, Failures how often in a row, and RetryAt when
	// the next attempt is.
	Status   int       `json:"status"`
	Trouble  string    `json:"trouble,omitempty"`
	Failures int       `json:"failures,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
}

func (w *WebSub) log() *slog.Logger       { return cmp.Or(w.Log, slog.New(slog.DiscardHandler)) }
func (w *WebSub) debounce() time.Duration { return cmp.Or(max(w.Debounce, 0), 30*time.Second) }

func (w *WebSub) init() error {
	w.once.Do(func() {
		if w.Journal == nil || len(w.Hubs) == 0 || len(w.Topics) == 0 {
			w.initErr = errors.New("websub: want a journal, a hub and a topic")
			return
		}
		seen := make(map[string]bool)
		for _, hub := range w.Hubs {
			for _, topic := range w.Topics {
				for _, s := range []string{hub, topic} {
					if _, err := webURL(s); err != nil {
						w.initErr = fmt.Errorf("websub: %w", err)
						return
					}
				}
				p := &pinger{w: w, hub: hub, topic: topic, place: place{journal: w.Journal, log: w.log().With("hub", hub, "topic", topic),
					note: "websub/" + url.QueryEscape(hub) + "/" + url.QueryEscape(topic)}}
				if !seen[p.note] {
					seen[p.note] = true
					w.pings = append(w.pings, p)
				}
			}
		}
	})
	return w.initErr
}

// maxTopic bounds the URL of a hub, a topic or a callback, in bytes.
const maxTopic = 2048

// webURL parses an absolute http or https URL without user and fragment.
func webURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case len(s) > maxTopic:
		return nil, fmt.Errorf("url %.80q: longer than %d bytes", s, maxTopic)
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("url %.200q: want http://HOST/PATH or https://HOST/PATH", s)
	case u.User != nil || strings.Contains(s, "#"):
		return nil, fmt.Errorf("url %.200q: want no user and no fragment", s)
	}
	return u, nil
}

// Run pings hubs after changes until ctx ends; then it returns nil. It
// returns an error if the configuration is wrong or the journal is closed;
// any other failure is logged, shown in Status and retried.
func (w *WebSub) Run(ctx context.Context) error {
	if err := w.init(); err != nil {
		return err
	}
	return runAll(ctx, w.pings)
}

// Turn sends the pings that are due, once, for a process that runs from time to
// time. It returns the number of accepted pings, and a line for people about each
// one that failed. A failing hub is no error.
func (w *WebSub) Turn(ctx context.Context) (pings int, failed []string, err error) {
	if err := w.init(); err != nil {
		return 0, nil, err
	}
	return turnAll(ctx, w.pings)
}

// once sends the ping that is due, if any.
func (p *pinger) once(ctx context.Context) (pings int, trouble string, err error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	was := p.state.Pings
	if err = p.settle(); err == nil {
		was = p.state.Pings
		_, err = p.step(ctx)
	}
	if p.state.Trouble != "" {
		trouble = fmt.Sprintf("%s, of %s: %s", p.hub, p.topic, p.state.Trouble)
	}
	if err != nil {
		err = fmt.Errorf("websub %s: %w", p.hub, err)
	}
	return int(p.state.Pings - was), trouble, err
}

// Status returns the status for each hub and topic. Run may be running or not.
func (w *WebSub) Status() ([]PingStatus, error) {
	if err := w.init(); err != nil {
		return nil, err
	}
	var list []PingStatus
	head := w.Journal.Head()
	for _, p := range w.pings {
		st, err := p.current()
		if err != nil {
			return nil, err
		}
		list = append(list, PingStatus{Hub: p.hub, Topic: p.topic, Cursor: st.Cursor, Pings: st.Pings, PingedAt: st.PingedAt,
			Owed: !st.Started.IsZero() && st.Cursor != head, Status: st.Status, Trouble: st.Trouble, Failures: st.Failures, RetryAt: st.RetryAt})
	}
	return list, nil
}

func (p *pinger) run(ctx context.Context) error { return p.follow(ctx, p.w.debounce(), p.step) }

// republished is how long to wait for Published to catch up.
const republished = time.Second

// step pings the hub if a ping is due. at is when to call it again; the zero time
// means when the journal has changes.
func (p *pinger) step(ctx context.Context) (at time.Time, err error) {
	if err := p.settle(); err != nil {
		return at, err
	}
	head, now := p.w.Journal.Head(), time.Now()
	if head.IsZero() {
		return at, nil
	}
	stands := head
	if p.w.Published != nil {
		stands = p.w.Published()
	}
	if p.state.Started.IsZero() { // the hub may have fetched the current content, and no later one
		if err := p.commit(func(st *pingState) { st.Started, st.Cursor = now, stands }); err != nil {
			return at, err
		}
	}
	if head == p.state.Cursor {
		return at, nil
	}
	if !over(p.state.RetryAt, now, longestHint) {
		return p.state.RetryAt, nil
	}
	if next := p.state.PingedAt.Add(p.w.debounce()); !over(next, now, p.w.debounce()) {
		return next, nil
	}
	if stands.Epoch != head.Epoch || stands.Epoch == p.state.Cursor.Epoch && stands.Seq <= p.state.Cursor.Seq {
		return now.Add(republished), nil
	}
	form := url.Values{"hub.mode": {"publish"}, "hub.url": {p.topic}, "hub.topic": {p.topic}} // hubs read one or the other
	req, err := http.NewRequest(http.MethodPost, p.hub, strings.NewReader(form.Encode()))
	if err != nil {
		return at, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	a := ask(ctx, transport(p.w.HTTP), req, askTime)
	if errors.Is(a.err, errEnded) {
		return at, ctx.Err()
	}
	if a.ok() {
		return time.Now(), p.accepted(stands, 0, a.status)
	}
	return p.failed("ping failed: "+a.String(), a.status, a.pause(p.note, p.state.Failures+1, time.Now()))
}
