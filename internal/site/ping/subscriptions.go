package ping

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A subscription is the note of one callback and one topic.
type subscription struct {
	Topic    string    `json:"topic"`
	Callback string    `json:"callback"`
	Secret   string    `json:"secret,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // end of the lease; zero if it was never verified

	// Cursor is the position of the content delivered last, and Digest its
	// digest, so that unchanged content is not delivered again.
	Cursor protocol.Cursor `json:"cursor"`
	Digest protocol.Digest `json:"digest,omitzero"`

	DeliveredAt time.Time `json:"delivered_at,omitzero"`
	Deliveries  int64     `json:"deliveries,omitempty"`
	Failures    int       `json:"failures,omitempty"` // in a row
	RetryAt     time.Time `json:"retry_at,omitzero"`
	Trouble     string    `json:"trouble,omitempty"`

	Client string `json:"client,omitempty"` // who requested it last, see HubOptions; empty if unknown
	Want   *want  `json:"want,omitempty"`   // the request to verify
}

// A want is a request that its callback has not confirmed yet.
type want struct {
	ID     string        `json:"id"`
	Mode   string        `json:"mode"` // of the hub's request: subscribe, unsubscribe, denied
	Lease  time.Duration `json:"lease,omitempty"`
	Secret string        `json:"secret,omitempty"`
}

// active reports whether the subscription is verified and its lease has not expired.
func (s subscription) active(now time.Time) bool {
	return !s.Until.IsZero() && !over(s.Until, now, leaseMost)
}

func (s subscription) host() string {
	u, err := url.Parse(s.Callback)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// id returns the name of a subscription's note, below hubNotes.
func (s subscription) id() string {
	d := protocol.Sum([]byte(s.Topic + "\n" + s.Callback)) // neither has a line feed
	return hex.EncodeToString(d[:16])
}

// subscriptions are those of a hub: in notes of the journal, and in memory. Their methods may be called by many
// goroutines at once.
type subscriptions struct {
	o *HubOptions

	mu      sync.Mutex              // guards the fields below, and that they match the notes
	all     map[string]subscription // by the last part of their note; nil before they are read
	calls   map[string]int          // verifications requested in this minute, by host
	callsAt time.Time
}

// load reads the notes, once. Callers hold mu.
func (l *subscriptions) load() error {
	if l.all != nil {
		return nil
	}
	all := make(map[string]subscription)
	err := l.o.Journal.EachNote(hubNotes, func(k string, v []byte) error {
		var s subscription
		if err := json.Unmarshal(v, &s); err != nil {
			return fmt.Errorf("note %s: %w", k, err)
		}
		all[strings.TrimPrefix(k, hubNotes)] = s
		return nil
	})
	if err == nil {
		l.all = all
	}
	return err
}

// list returns a copy of all.
func (l *subscriptions) list() (map[string]subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.load()
	return maps.Clone(l.all), err
}

// store durably stores a request.
func (l *subscriptions) store(asked subscription) *refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.load(); err != nil {
		l.o.log().Error("hub: subscriptions could not be read", "err", err)
		return refuse(http.StatusServiceUnavailable, "subscriptions cannot be read now")
	}
	if no := l.admit(asked); no != nil {
		return no
	}
	id := asked.id()
	s, ok := l.all[id]
	if ok {
		s.Want, s.Client = asked.Want, asked.Client // deliveries continue as before until this is verified
	} else {
		s = asked
	}
	if err := l.keep(id, s); err != nil {
		l.o.log().Error("hub: a request could not be stored", "err", err)
		return refuse(http.StatusServiceUnavailable, "requests cannot be stored now")
	}
	return nil
}

// admit enforces the bounds. Callers hold mu.
func (l *subscriptions) admit(asked subscription) *refusal {
	now, host, id := time.Now(), asked.host(), asked.id()
	if over(l.callsAt.Add(time.Minute), now, time.Minute) {
		l.callsAt = now
		clear(l.calls)
	}
	client := "from " + asked.Client // no host has that name
	if l.calls[""] >= mostCalls || l.calls[host] >= hostCalls || asked.Client != "" && l.calls[client] >= clientCalls {
		return refuse(http.StatusTooManyRequests, "too many requests: try again in a minute")
	}
	total, ofHost, ofClient, waiting, hostWaits, clientWaits := 0, 0, 0, 0, 0, 0
	for other, s := range l.all {
		if other == id {
			continue
		}
		same, own := s.host() == host, asked.Client != "" && s.Client == asked.Client
		if total++; same {
			ofHost++
		}
		if own {
			ofClient++
		}
		if s.Want == nil {
			continue
		}
		if waiting++; same {
			hostWaits++
		}
		if own {
			clientWaits++
		}
	}
	switch {
	case waiting >= mostWaiting || hostWaits >= hostWaiting || clientWaits >= clientWaiting:
		return refuse(http.StatusTooManyRequests, "too many requests are waiting for verification")
	case asked.Want.Mode != "subscribe":
	case total >= cmp.Or(max(l.o.MaxSubscriptions, 0), 1000):
		return refuse(http.StatusServiceUnavailable, "this hub is full: it accepts no more subscriptions")
	case ofHost >= cmp.Or(max(l.o.PerHost, 0), 20):
		return refuse(http.StatusTooManyRequests, "too many subscriptions with callbacks on %s", host)
	case ofClient >= max(1, cmp.Or(max(l.o.MaxSubscriptions, 0), 1000)/4):
		return refuse(http.StatusTooManyRequests, "too many subscriptions requested by one client")
	}
	l.calls[""]++
	l.calls[host]++
	if asked.Client != "" {
		l.calls[client]++
	}
	return nil
}

// keep stores a subscription durably, and in memory once that has succeeded.
// Callers hold mu.
func (l *subscriptions) keep(id string, s subscription) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := l.o.Journal.SetNotes(map[string][]byte{hubNotes + id: b}); err != nil {
		return err
	}
	l.all[id] = s
	return nil
}

// drop deletes a subscription durably. Callers hold mu.
func (l *subscriptions) drop(id string) error {
	if err := l.o.Journal.SetNotes(map[string][]byte{hubNotes + id: nil}); err != nil {
		return err
	}
	delete(l.all, id)
	return nil
}

// deny queues a "denied" for subscribers of topics that are not offered any more.
func (l *subscriptions) deny() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range l.all {
		if !slices.Contains(l.o.Topics, s.Topic) {
			s.Want = &want{ID: newKey(), Mode: "denied"}
			l.all[id] = s
		}
	}
}

// caughtUp moves a subscriber's cursor to at without a delivery, since the content
// there is what it received last. Any later write advances Published and is compared
// then. The cursor is not stored: a restart compares again and finds the same digest.
func (l *subscriptions) caughtUp(id string, at protocol.Cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.all[id]; ok {
		s.Cursor = at
		l.all[id] = s
	}
}

// answered applies the wanted change if the callback confirmed it, and else discards it.
func (l *subscriptions) answered(id string, w want, ok bool, c content) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cur, there := l.all[id]
	if !there || cur.Want == nil || cur.Want.ID != w.ID {
		return nil // replaced by a newer request
	}
	now := time.Now()
	switch cur.Want = nil; {
	case w.Mode == "denied", ok && w.Mode == "unsubscribe", !ok && cur.Until.IsZero():
		err = l.drop(id)
	case ok:
		if !cur.active(now) {
			cur.Since, cur.Cursor, cur.Digest = now, c.at, c.digest
			cur.Failures, cur.RetryAt, cur.Trouble = 0, time.Time{}, ""
		}
		cur.Until, cur.Secret = now.Add(w.Lease), w.Secret
		err = l.keep(id, cur)
	default:
		err = l.keep(id, cur)
	}
	return err
}

// delivered records the result of a delivery.
func (l *subscriptions) delivered(id string, a answer, c content) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	cur, there := l.all[id]
	if !there {
		return
	}
	switch {
	case a.status == http.StatusGone:
		l.o.log().Info("hub: subscription ended: its callback answered 410 Gone", "topic", cur.Topic, "host", cur.host())
		if err := l.drop(id); err != nil {
			l.o.log().Error("hub: a subscription could not be deleted", "err", err)
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
	if err := l.keep(id, cur); err != nil {
		l.o.log().Error("hub: a delivery could not be recorded: a restart would repeat it", "err", err)
		l.all[id] = cur // the delivery has been made
	}
}

// expire deletes a subscription durably.
func (l *subscriptions) expire(id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drop(id)
}
