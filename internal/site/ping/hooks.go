package ping

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// Hooks deliver each change of the site to commands and webhooks of its own, such as one that purges a CDN: in
// order, and at least once. Each begins with the first change after it was configured; one that fails gets the
// same changes again, with backoff, and delays no other. Their methods may be called by many goroutines at once.
//
// A webhook gets a POST of one message of the protocol, as the changes door answers: a batch of at most 100
// changes. Any 2xx status accepts it. A command gets at most protocol.MaxBatch changes on its standard input, one ev
// message on each line, and accepts them by exit code 0. Its variables are PARLEY_HOOK_BASE, PARLEY_HOOK_KIND (the kind
// of message, batch or gap), PARLEY_HOOK_CHANGES (their number) and PARLEY_HOOK_CURSOR (the cursor after them). No option
// begins with hook-, so they are no options of a program of ours that the command runs, perhaps for another site.
//
// If the journal no longer reaches back to the cursor of a hook (the state was lost, or the hook failed for
// longer than changes are kept), it gets a gap message: any page may have changed. Then it continues with the
// oldest change that the journal has.
//
// What may not be published at the moment of delivery is left out; see [protocol.Change.Public].
type Hooks struct {
	Options HookOptions

	once    sync.Once
	initErr error
	hooks   []*hook
}

// HookOptions configure [Hooks]. The zero values of optional fields are useful.
type HookOptions struct {
	// Journal is the site's. Its notes below "on-change/" and "webhook/" hold a cursor for each hook.
	Journal *server.Journal

	Base     string // the site's base URL
	Manifest string // URL of the manifest, named by a gap message

	Commands []string // each a program and its arguments, separated by spaces; no shell reads them
	URLs     []string // webhooks

	// Secret signs the body of each POST in the header X-Hub-Signature-256: "sha256=" and the HMAC-SHA256 in
	// hexadecimal digits, as GitHub does. Empty means that it is not signed.
	Secret []byte

	// Public reports whether a URL is public now; nil means that all are. Ready reports whether its answers are
	// valid yet, and nothing is delivered before; nil means that they are.
	Public func(url string) bool
	Ready  func() bool

	// Timeout bounds one run of a command, which is then killed. Zero means 5 minutes.
	Timeout time.Duration

	HTTP *http.Client // only its Transport is used; nil means http.DefaultTransport
	Log  *slog.Logger // nil means silence
}

// A hook is one command or webhook.
type hook struct {
	place
	o  *HookOptions
	to string // the command, or the URL

	// early says that this hook began before the journal had a head, so that every change in it is new.
	// Guarded by turn.
	early bool
}

// The kinds of hooks, as the options are called.
const (
	commandHook = "on-change"
	webHook     = "webhook"
)

// webHookBatch bounds the changes of one POST: servers refuse long ones, some beyond 100 kB.
const webHookBatch = 100

// name returns the command, or the URL without its query, which may be secret.
func (k *hook) name() string {
	if k.what() == commandHook {
		return k.to
	}
	name, _, _ := strings.Cut(k.to, "?")
	return name
}

// A HookStatus is the status of one command or webhook.
type HookStatus struct {
	Kind string `json:"kind"` // "on-change" or "webhook"
	Name string `json:"name"` // the command, or the URL without its query, which may be secret

	Cursor      protocol.Cursor `json:"cursor"` // it has accepted all changes up to it
	Behind      uint64          `json:"behind"` // changes after it, where that is known
	Changes     int64           `json:"changes"`
	Deliveries  int64           `json:"deliveries"`            // accepted, of those changes
	DeliveredAt time.Time       `json:"delivered_at,omitzero"` // time of the newest of them

	// Status is the HTTP status of the newest response, 0 if there was none. Trouble says for people why
	// deliveries fail now, Failures how often in a row, and RetryAt when the next attempt is.
	Status   int       `json:"status,omitempty"`
	Trouble  string    `json:"trouble,omitempty"`
	Failures int       `json:"failures,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
}

// Check reports what is wrong with the commands and URLs.
func (h *Hooks) Check() error {
	for _, c := range h.Options.Commands {
		if len(strings.Fields(c)) == 0 || len(c) > maxTopic {
			return fmt.Errorf("on-change %.80q: want a program and its arguments, of at most %d bytes", c, maxTopic)
		}
	}
	for _, u := range h.Options.URLs {
		if _, err := webURL(u); err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
	}
	return nil
}

func (h *Hooks) init() error {
	h.once.Do(func() {
		o := &h.Options
		if h.initErr = h.Check(); o.Journal == nil {
			h.initErr = errors.New("no journal")
		}
		if h.initErr != nil {
			h.initErr = fmt.Errorf("hooks: %w", h.initErr)
			return
		}
		log, seen := cmp.Or(o.Log, slog.New(slog.DiscardHandler)), make(map[string]bool)
		add := func(what string, list []string) {
			for _, to := range list {
				k := &hook{o: o, to: to, place: place{journal: o.Journal, note: what + "/" + url.QueryEscape(to)}}
				if k.log = log.With("to", k.name()); !seen[k.note] {
					seen[k.note] = true
					h.hooks = append(h.hooks, k)
				}
			}
		}
		add(commandHook, o.Commands)
		add(webHook, o.URLs)
	})
	return h.initErr
}

// Begin gives each hook that is new to the journal its cursor, so that it gets all later changes.
func (h *Hooks) Begin() error {
	if err := h.init(); err != nil {
		return err
	}
	for _, k := range h.hooks {
		k.turn.Lock()
		err := k.settle()
		if err == nil {
			err = k.start()
		}
		k.turn.Unlock()
		if err != nil {
			return fmt.Errorf("%s: %w", k.what(), err)
		}
	}
	return nil
}

// Run delivers changes until ctx ends; then it returns nil, once deliveries in flight have ended or 5 s have
// passed. It returns an error if the configuration is wrong or the journal is closed; any other failure is
// logged, shown in Status and retried.
func (h *Hooks) Run(ctx context.Context) error {
	if err := h.init(); err != nil {
		return err
	}
	return runAll(ctx, h.hooks)
}

// Turn delivers the changes that are due, once, for a process that runs from time to time. It returns the
// number of accepted changes, each counted for every hook, and a line for people about each hook that failed or
// whose retry time has not come. A failing hook is no error.
func (h *Hooks) Turn(ctx context.Context) (changes int, failed []string, err error) {
	if err := h.init(); err != nil {
		return 0, nil, err
	}
	return turnAll(ctx, h.hooks)
}

// Status returns the status of each command and webhook. Run may be running or not.
func (h *Hooks) Status() ([]HookStatus, error) {
	if err := h.init(); err != nil {
		return nil, err
	}
	var list []HookStatus
	head := h.Options.Journal.Head()
	for _, k := range h.hooks {
		st, err := k.current()
		if err != nil {
			return nil, err
		}
		s := HookStatus{Kind: k.what(), Name: k.name(), Cursor: st.Cursor, Changes: st.Changes, Deliveries: st.Pings, DeliveredAt: st.PingedAt,
			Status: st.Status, Trouble: st.Trouble, Failures: st.Failures, RetryAt: st.RetryAt}
		if head.Epoch == st.Cursor.Epoch && head.Seq > st.Cursor.Seq {
			s.Behind = head.Seq - st.Cursor.Seq
		}
		list = append(list, s)
	}
	return list, nil
}

func (k *hook) run(ctx context.Context) error { return k.follow(ctx, gather, k.step) }

// once delivers everything that is due.
func (k *hook) once(ctx context.Context) (changes int, trouble string, err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	if err := k.settle(); err != nil {
		return 0, "", fmt.Errorf("%s: %w", k.what(), err)
	}
	was := k.state.Changes
	for {
		var at time.Time
		if at, err = k.step(ctx); err != nil {
			err = fmt.Errorf("%s: %w", k.what(), err)
		} else if !at.IsZero() && time.Until(at) <= 0 {
			continue
		}
		if k.state.Trouble != "" {
			trouble = k.what() + " " + k.name() + ": " + k.state.Trouble
		}
		return int(k.state.Changes - was), trouble, err
	}
}

// start begins to follow the journal, as an engine does.
func (k *hook) start() error {
	if !k.state.Started.IsZero() {
		return nil
	}
	from := k.journal.Head()
	if from.IsZero() {
		k.early = true
		return nil
	}
	if k.early {
		from = k.journal.Floor()
	}
	return k.commit(func(st *pingState) { st.Started, st.Cursor = time.Now(), from })
}

// step delivers the next message, if one may be delivered now. at is when to call it again; the zero time means
// when the journal has changes.
func (k *hook) step(ctx context.Context) (at time.Time, err error) {
	if err := k.settle(); err != nil {
		return at, err
	}
	if err := k.start(); err != nil || k.state.Started.IsZero() {
		return at, err
	}
	now := time.Now()
	switch {
	case !over(k.state.RetryAt, now, longestHint):
		return k.state.RetryAt, nil
	case k.journal.Head() == k.state.Cursor:
		return at, nil
	case k.o.Ready != nil && !k.o.Ready():
		return now.Add(readyAgain), nil
	}
	m, err := k.next(ctx)
	switch {
	case err != nil || m.To == k.state.Cursor:
		return at, err
	case m.Kind == protocol.Batch && len(m.Changes) == 0:
		return now, k.commit(func(st *pingState) { st.Cursor = m.To })
	}
	deliver := k.post
	if k.what() == commandHook {
		deliver = k.exec
	}
	status, wait, err := deliver(ctx, &m)
	switch {
	case errors.Is(err, errEnded):
		return at, ctx.Err()
	case err != nil:
		return k.failed("not delivered: "+err.Error(), status, wait)
	}
	return time.Now(), k.accepted(m.To, len(m.Changes), status)
}

// next returns the message that follows the cursor, as it may be published now: a batch, possibly without
// changes, or a gap.
func (k *hook) next(ctx context.Context) (protocol.Message, error) {
	after := k.state.Cursor
	m := protocol.Message{Kind: protocol.Batch, From: after, To: after}
	most := protocol.MaxBatch
	if k.what() == webHook {
		most = webHookBatch
	}
	changes, err := k.journal.Read(ctx, after, most)
	if errors.Is(err, protocol.ErrEpoch) || errors.Is(err, protocol.ErrTooOld) {
		if k.journal.Head().IsZero() {
			return m, nil // a new epoch is being described
		}
		k.log.Warn(k.what()+": changes were missed", "err", err)
		return protocol.Message{Kind: protocol.Gap, From: after, To: k.journal.Floor(), Reason: "changes were missed: treat every page as changed", Manifest: k.o.Manifest}, nil
	}
	for _, c := range changes[:protocol.Fit(changes)] {
		m.To.Seq = c.Seq
		if c, ok := c.Public(func(url string) bool { return k.o.Public == nil || k.o.Public(url) }); ok {
			m.Changes = append(m.Changes, c)
		}
	}
	return m, err
}

// post delivers a message to a webhook. After an error, wait is how long to wait before the next attempt.
func (k *hook) post(ctx context.Context, m *protocol.Message) (status int, wait time.Duration, err error) {
	body := m.Encode()
	req, err := http.NewRequest(http.MethodPost, k.to, bytes.NewReader(body))
	if err != nil {
		return 0, again, err
	}
	req.Header.Set("Content-Type", "application/json")
	if len(k.o.Secret) > 0 {
		req.Header.Set("X-Hub-Signature-256", signature(k.o.Secret, body))
	}
	a := ask(ctx, transport(k.o.HTTP), req, askTime)
	switch {
	case errors.Is(a.err, errEnded):
		err = a.err
	case !a.ok():
		err = errors.New(a.String())
	}
	return a.status, a.pause(k.note, k.state.Failures+1, time.Now()), err
}

// exec delivers a message to a command; see post.
func (k *hook) exec(ctx context.Context, m *protocol.Message) (status int, wait time.Duration, err error) {
	if ctx.Err() != nil {
		return 0, 0, errEnded
	}
	inner, done := graced(ctx)
	defer done()
	most := cmp.Or(max(k.o.Timeout, 0), 5*time.Minute)
	inner, stop := context.WithTimeoutCause(inner, most, fmt.Errorf("it did not end within %v", most))
	defer stop()

	var lines bytes.Buffer
	for i, c := range m.Changes {
		ev := protocol.Message{Kind: protocol.Ev, To: protocol.Cursor{Epoch: m.To.Epoch, Seq: c.Seq}, Changes: m.Changes[i : i+1]}
		lines.Write(append(ev.Encode(), '\n'))
	}
	if m.Kind == protocol.Gap {
		lines.Write(append(m.Encode(), '\n'))
	}
	said := &tail{most: 200} // where the cause stands
	cmd := program(inner, strings.Fields(k.to))
	cmd.WaitDelay = time.Second // for processes that it leaves behind with its output open
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &lines, said, said
	cmd.Env = append(os.Environ(), "PARLEY_HOOK_BASE="+k.o.Base, "PARLEY_HOOK_KIND="+string(m.Kind),
		"PARLEY_HOOK_CHANGES="+strconv.Itoa(len(m.Changes)), "PARLEY_HOOK_CURSOR="+m.To.String())
	err = cmd.Run()
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return 0, 0, nil
	case inner.Err() != nil:
		err = context.Cause(inner)
	}
	if s := clip(string(said.b), 200); s != "" {
		err = fmt.Errorf("%w: %s", err, s)
	}
	return 0, backoff(k.note, k.state.Failures+1), err
}

// tail is a writer that keeps the last bytes.
type tail struct {
	most int
	b    []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-t.most):]...)
	t.b = t.b[max(0, len(t.b)-t.most):]
	return len(p), nil
}
