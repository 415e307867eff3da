package ping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A Hub is a small WebSub hub (W3C WebSub, sections 5 to 8) for the topics of
// one site, whose journal it follows itself: nobody has to ping it.
//
// It is an http.Handler that accepts requests to subscribe and to unsubscribe.
// Run verifies them with the subscriber, and delivers the full content of a
// topic to each of its subscribers when it has changed. Both must be in use.
// A request that was answered 202 survives a kill, and an answered delivery is
// not repeated, except for one to each subscriber after a kill.
//
// A subscriber that is behind receives the current content at its next delivery:
// intermediate versions are skipped, the last one never is.
//
// Strangers make this machine send requests to addresses of their choice.
// Therefore callbacks are called at public addresses only, and through no
// proxy, unless AllowPrivate; redirects are not followed; subscriptions,
// requests and everything that is read are bounded, in all and by host.
type Hub struct {
	Options HubOptions

	once    sync.Once
	initErr error
	via     http.RoundTripper
	kick    chan struct{} // a request has been stored
	running sync.Mutex    // one Run at a time
	subs    subscriptions
	topics  topics
}

// HubOptions configure a [Hub]. Journal, URL, Topics and Topic are required.
type HubOptions struct {
	// Journal is the site's. Its notes below "hub/" hold the subscriptions,
	// with their secrets.
	Journal *server.Journal

	// URL is the hub's own, as subscribers see it, such as BASE/parley/hub.
	URL string

	// Topics are the URLs that can be subscribed to.
	Topics []string

	// Topic returns the current content of a topic, of at most maxContent
	// bytes: it must refuse longer content before reading it, as ReadTopic
	// does for a file. It is called for two topics at most at the same time.
	// The Hub holds three contents at most, however many subscribe.
	Topic func(ctx context.Context, url string) (contentType string, body []byte, err error)

	// Published returns the position up to which all topics have been written:
	// the content of Topic shows every change up to it, and may show later ones.
	// Topics are read again whenever it moves, and at no other time: so it must not
	// move before the last topic is written. Nil means the journal's head, which is
	// right only if topics are generated on request.
	Published func() protocol.Cursor

	// Debounce is how long changes gather before they are delivered. Zero means 10 s.
	Debounce time.Duration

	// MaxSubscriptions bounds subscriptions, and PerHost those with callbacks
	// on one host. Zero means 1,000 and 20.
	MaxSubscriptions, PerHost int

	// Client identifies the sender of a request for per-client limits, such as by its
	// address. If it returns "", or is nil, only the limits for all clients apply.
	Client func(*http.Request) string

	// AllowPrivate says that callbacks may lie at loopback, private and
	// link-local addresses.
	AllowPrivate bool

	// HTTP, if not nil, calls callbacks with its Transport, which then has to
	// keep away from private addresses itself.
	HTTP *http.Client

	Log *slog.Logger // nil means silence
}

// maxContent bounds the content of a topic, in bytes.
const maxContent = 16 << 20

const (
	hubNotes = "hub/"

	leaseLeast = 5 * time.Minute
	leaseUsual = 10 * 24 * time.Hour
	leaseMost  = 30 * 24 * time.Hour

	maxSecret  = 199      // bytes, by the specification
	maxRequest = 16 << 10 // bytes

	// Verifications are requests that anybody can cause to any host. These bound how
	// many wait at a time, and how many are requested in a minute: in all and per host.
	mostWaiting, hostWaiting = 100, 4
	mostCalls, hostCalls     = 600, 30

	// The same bounds per client (see HubOptions.Client), which also has at most a quarter of all
	// subscriptions: a client that names many hosts does not displace others.
	clientWaiting, clientCalls = 12, 60

	callTime = 10 * time.Second // bounds one request to a callback
)

// A HubStatus is the status of a Hub.
type HubStatus struct {
	URL           string               `json:"url"`
	Topics        []TopicStatus        `json:"topics"`
	Subscriptions []SubscriptionStatus `json:"subscriptions"` // by topic and callback
}

// A TopicStatus is the status of one topic of a Hub.
type TopicStatus struct {
	URL         string `json:"url"`
	Subscribers int    `json:"subscribers"`

	// Trouble says for people why its content cannot be delivered.
	Trouble string `json:"trouble,omitempty"`
}

// A SubscriptionStatus is the status of one subscription. Its callback may be a
// secret of the subscriber: do not publish it.
type SubscriptionStatus struct {
	Topic       string          `json:"topic"`
	Callback    string          `json:"callback"`
	Since       time.Time       `json:"since,omitzero"`
	Until       time.Time       `json:"until,omitzero"` // zero: not verified yet
	Cursor      protocol.Cursor `json:"cursor"`         // position of the content delivered last
	DeliveredAt time.Time       `json:"delivered_at,omitzero"`
	Deliveries  int64           `json:"deliveries"`
	Waiting     string          `json:"waiting,omitempty"` // the mode that its callback has yet to confirm

	// Trouble says for people why deliveries fail, Failures how often in a row,
	// and RetryAt when the next attempt is.
	Trouble  string    `json:"trouble,omitempty"`
	Failures int       `json:"failures,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
}

func (o *HubOptions) log() *slog.Logger       { return cmp.Or(o.Log, slog.New(slog.DiscardHandler)) }
func (o *HubOptions) debounce() time.Duration { return cmp.Or(max(o.Debounce, 0), 10*time.Second) }

func (h *Hub) init() error {
	h.once.Do(func() { h.initErr = h.open() })
	return h.initErr
}

func (h *Hub) open() error {
	o := &h.Options
	h.kick, h.subs, h.topics = make(chan struct{}, 1), subscriptions{o: o, calls: make(map[string]int)}, newTopics(o)
	if o.Journal == nil || o.Topic == nil || len(o.Topics) == 0 {
		return errors.New("hub: want a journal, topics and their content")
	}
	for _, s := range append([]string{o.URL}, o.Topics...) {
		if _, err := webURL(s); err != nil {
			return fmt.Errorf("hub: %w", err)
		}
	}
	h.via = transport(o.HTTP)
	if o.HTTP == nil {
		t := fetch.Public()
		if o.AllowPrivate {
			t.DialContext = (&net.Dialer{Timeout: callTime}).DialContext
		}
		h.via = t
	}
	return nil
}

// Status returns the hub's status. Run may be running or not.
func (h *Hub) Status() (HubStatus, error) {
	if err := h.init(); err != nil {
		return HubStatus{}, err
	}
	all, err := h.subs.list()
	if err != nil {
		return HubStatus{}, err
	}
	st, now := HubStatus{URL: h.Options.URL}, time.Now()
	subscribers := make(map[string]int)
	for _, s := range all {
		if s.active(now) {
			subscribers[s.Topic]++
		}
		v := SubscriptionStatus{Topic: s.Topic, Callback: s.Callback, Since: s.Since, Until: s.Until, Cursor: s.Cursor,
			DeliveredAt: s.DeliveredAt, Deliveries: s.Deliveries, Trouble: s.Trouble, Failures: s.Failures, RetryAt: s.RetryAt}
		if s.Want != nil {
			v.Waiting = s.Want.Mode
		}
		st.Subscriptions = append(st.Subscriptions, v)
	}
	slices.SortFunc(st.Subscriptions, func(a, b SubscriptionStatus) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Callback, b.Callback))
	})
	for _, t := range h.Options.Topics {
		st.Topics = append(st.Topics, TopicStatus{URL: t, Subscribers: subscribers[t], Trouble: h.topics.troubleOf(t)})
	}
	return st, nil
}

// A refusal is the error response to a request.
type refusal struct {
	status int
	reason string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// ServeHTTP accepts a subscriber's request: 202 means that it has been stored
// and will be verified.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if no := h.serve(w, r); no != nil {
		switch no.status {
		case http.StatusMethodNotAllowed:
			w.Header().Set("Allow", "POST")
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "60")
		}
		http.Error(w, no.reason, no.status)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	io.WriteString(w, "Your callback will be asked to confirm this request.\n")
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) *refusal {
	if err := h.init(); err != nil {
		return refuse(http.StatusInternalServerError, "this hub is not configured")
	}
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "this is a WebSub hub: subscribe with POST")
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/x-www-form-urlencoded" {
		return refuse(http.StatusUnsupportedMediaType, "want application/x-www-form-urlencoded")
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return refuse(http.StatusRequestEntityTooLarge, "want a form of at most %d bytes", maxRequest)
	}
	form, err := url.ParseQuery(string(b))
	if err != nil {
		return refuse(http.StatusBadRequest, "the form cannot be parsed")
	}
	s, no := h.Options.request(form)
	if no != nil {
		return no
	}
	if h.Options.Client != nil {
		s.Client = h.Options.Client(r)
	}
	if no := h.subs.store(s); no != nil {
		return no
	}
	pause.Wake(h.kick)
	return nil
}

// request parses a form into the requested subscription.
func (o *HubOptions) request(form url.Values) (s subscription, no *refusal) {
	for _, name := range []string{"hub.mode", "hub.topic", "hub.callback", "hub.lease_seconds", "hub.secret"} {
		if len(form[name]) > 1 {
			return s, refuse(http.StatusBadRequest, "%s is given more than once", name)
		}
	}
	wanted := &want{ID: newKey(), Mode: form.Get("hub.mode"), Lease: leaseUsual, Secret: form.Get("hub.secret")}
	s = subscription{Topic: form.Get("hub.topic"), Callback: form.Get("hub.callback"), Want: wanted}
	switch wanted.Mode {
	case "subscribe", "unsubscribe":
	case "publish":
		return s, refuse(http.StatusBadRequest, "this hub needs no pings: it follows its site by itself")
	default:
		return s, refuse(http.StatusBadRequest, "hub.mode: want subscribe or unsubscribe")
	}
	if !slices.Contains(o.Topics, s.Topic) {
		return s, refuse(http.StatusNotFound, "hub.topic: this hub does not offer the topic")
	}
	u, err := webURL(s.Callback)
	if err != nil {
		return s, refuse(http.StatusBadRequest, "hub.callback: %v", err)
	}
	if port := u.Port(); port != "" && port != "80" && port != "443" {
		if n, err := strconv.Atoi(port); err != nil || n < 1024 || n > 65535 {
			return s, refuse(http.StatusBadRequest, "hub.callback: want port 80, 443, or 1024 to 65535")
		}
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !o.AllowPrivate && inet.Special(a) != "" {
		return s, refuse(http.StatusBadRequest, "hub.callback: want a public address")
	}
	if len(wanted.Secret) > maxSecret {
		return s, refuse(http.StatusBadRequest, "hub.secret: want less than 200 bytes")
	}
	if text := form.Get("hub.lease_seconds"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return s, refuse(http.StatusBadRequest, "hub.lease_seconds: want a number of seconds")
		}
		wanted.Lease = max(leaseLeast, time.Duration(min(n, uint64(leaseMost/time.Second)))*time.Second)
	}
	return s, nil
}
