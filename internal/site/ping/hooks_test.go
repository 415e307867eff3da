package ping_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
)

const (
	hookURL    = "https://cdn.example/purge?token=hidden"
	hookSecret = "0123456789abcdef"
)

// A purger is a webhook that checks what it gets: signed messages, none of which is skipped.
type purger struct {
	t      testing.TB
	mu     sync.Mutex
	status int // of its answers; 0 means 204
	lost   bool
	at     protocol.Cursor
	tries  []time.Time
	got    []string // "op path", in order
}

func newPurger(w *world) *purger {
	p := &purger{t: w.t}
	w.host("cdn.example", p)
	return p
}

func (p *purger) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write(body)
	if sign := "sha256=" + hex.EncodeToString(mac.Sum(nil)); err != nil || r.Method != "POST" || r.URL.String() != hookURL || r.Header.Get("X-Hub-Signature-256") != sign {
		p.t.Errorf("%v: %s %s with signature %q, want %q", err, r.Method, r.URL, r.Header.Get("X-Hub-Signature-256"), sign)
	}
	m, err := protocol.ParseMessage(body)
	if err != nil {
		p.t.Errorf("webhook got %s: %v", body, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries = append(p.tries, time.Now())
	if p.status != 0 {
		return response(r, p.status, "the origin is away"), nil
	}
	if p.at != m.From && !p.at.IsZero() {
		p.t.Errorf("webhook stands at %v and got the changes after %v", p.at, m.From)
	}
	for _, c := range m.Changes {
		said := string(c.Op) + " " + strings.TrimPrefix(c.Item.URL, base)
		if c.From != "" {
			said += " from " + strings.TrimPrefix(c.From, base)
		}
		p.got = append(p.got, said)
	}
	if m.Kind == protocol.Gap {
		p.got = append(p.got, "gap "+m.Manifest)
	}
	if p.lost { // it has the changes, and the sender cannot know it
		return nil, io.ErrUnexpectedEOF
	}
	p.at = m.To
	return response(r, 204, ""), nil
}

// answers sets the status of later answers, and whether they are lost.
func (p *purger) answers(status int, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.lost = status, lost
}

// wants checks what the webhook has got since the last call.
func (p *purger) wants(want ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	check(p.t, "changes", strings.Join(p.got, ", "), strings.Join(want, ", "))
	p.got = nil
}

func (w *world) webhook() *ping.Hooks {
	return &ping.Hooks{Options: ping.HookOptions{Journal: w.journal, Base: base, Manifest: base + "robots.rdf", URLs: []string{hookURL}, Secret: []byte(hookSecret), Public: w.public, HTTP: w.client(), Log: w.log}}
}

func hookStatus(t testing.TB, h *ping.Hooks) ping.HookStatus {
	t.Helper()
	st := must.Get(h.Status())
	return st[0]
}

// A webhook gets every change in order, also those that IndexNow leaves out, and none that may not be published now.
func TestWebhookGetsEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(create("old.html"))
		p, h := newPurger(w), w.webhook()
		var ready atomic.Bool
		h.Options.Ready = ready.Load
		defer run(t, h)()
		pass(time.Minute)
		p.wants() // what was there before is no news
		w.setPublic("secret.html", false)
		w.change(create("a.html"), update("a.html", 0), create("secret.html"), update("a.html", 1), remove("secret.html"), move("a.html", "b.html"))
		pass(time.Minute)
		p.wants() // the rules are not known yet
		ready.Store(true)
		pass(time.Minute)
		p.wants("create a.html", "update a.html", "update a.html", "delete secret.html", "move b.html from a.html")
		w.change(move("b.html", "secret.html"))
		pass(time.Minute)
		p.wants("delete b.html")
		w.change(update("secret.html", 1)) // alone: nothing to tell
		pass(time.Minute)
		st := hookStatus(t, h)
		check(t, "requests", len(p.tries), 2)
		check(t, "accepted", st.Changes, 6)
		check(t, "behind", st.Behind, 0)
		check(t, "name", st.Kind+" "+st.Name, "webhook https://cdn.example/purge")
	})
}

// While a webhook fails, and across restarts, its changes wait; then it gets all of them, in order.
func TestFailingWebhookMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p, h := newPurger(w), w.webhook()
		stop := run(t, h)
		pass(time.Second)
		var want []string
		edit := func(n int) {
			for range n {
				name := fmt.Sprintf("p%d.html", len(want))
				w.change(create(name))
				want = append(want, "create "+name)
			}
		}
		p.answers(500, false)
		edit(3)
		pass(10 * time.Minute)
		if n := len(p.tries); n < 3 || n > 4 {
			t.Errorf("%d attempts within ten minutes", n)
		}
		st := hookStatus(t, h)
		check(t, "trouble", st.Trouble, "not delivered: 500: the origin is away")
		check(t, "behind", st.Behind, 3)
		stop()
		w.must(w.journal.Close())
		w.open()
		edit(protocol.MaxBatch + 1)
		p.answers(0, false)
		h = w.webhook()
		check(t, "failures after a restart", hookStatus(t, h).Failures, st.Failures)
		stop = run(t, h)
		pass(time.Second)
		p.wants() // the wait is kept, too
		pass(10 * time.Minute)
		p.wants(want...)
		check(t, "trouble", hookStatus(t, h).Trouble, "")

		// An answer that is lost: the same changes come again.
		p.answers(0, true)
		edit(1)
		pass(time.Minute)
		p.answers(0, false)
		pass(10 * time.Minute)
		last := want[len(want)-1]
		p.wants(last, last)
		stop()
	})
}

// A webhook that was away for longer than the journal remembers, or whose journal began anew, is told that changes were missed.
func TestWebhookIsToldOfMissedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.must(w.journal.Close())
		w.opts.MaxChanges = 2
		w.open()
		p := newPurger(w)
		turn := func() {
			t.Helper()
			_, failed, err := w.webhook().Turn(t.Context())
			w.must(err)
			check(t, "failed", len(failed), 0)
		}
		turn()
		w.change(create("a.html"))
		turn()
		p.wants("create a.html")
		for i := range 20 {
			w.change(create(fmt.Sprint(i)))
		}
		turn()
		if got := strings.Join(p.got, ", "); !strings.HasPrefix(got, "gap "+base+"robots.rdf, create ") || !strings.HasSuffix(got, "create 19") {
			t.Errorf("after too long a time the webhook got %s", got)
		}
		p.got = nil
		w.newEpoch(page("old.html"))
		turn()
		p.wants() // a new epoch awaits its first scan
		w.must(w.journal.EndBaseline())
		w.change(create("b.html"))
		turn()
		p.wants("gap "+base+"robots.rdf", "create b.html")
	})
}

// newEpoch begins a new epoch with a published page, which awaits its first scan.
func (w *world) newEpoch(was protocol.Item) {
	w.t.Helper()
	w.must(w.journal.Renew(context.Background(), func(yield func(protocol.Item, error) bool) { yield(was, nil) }))
}

// A new hook of a new site gets what happens after the first scan, if it was there before.
func TestHookBeginsWithJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.newEpoch(page("old.html"))
		p, h := newPurger(w), w.webhook()
		w.must(h.Begin())
		w.change(create("first.html"))
		w.must(w.journal.EndBaseline())
		w.change(create("second.html"))
		defer run(t, h)()
		pass(time.Minute)
		p.wants("create second.html")
	})
}

// A command gets the changes as lines. One that fails, or hangs, gets them again.
func TestCommandOnChange(t *testing.T) {
	sh := machine.Tool(t, "sh")
	dir := t.TempDir()
	script := filepath.Join(dir, "purge")
	write := func(text string) {
		t.Helper()
		must.Write(t, script, text)
	}
	w := newWorld(t)
	most := time.Minute
	hooks := func() *ping.Hooks {
		return &ping.Hooks{Options: ping.HookOptions{Journal: w.journal, Base: base, Commands: []string{sh + " " + script + " $HOME;x"}, Timeout: most, Log: w.log}}
	}
	w.must(hooks().Begin())
	w.change(create("a.html"), update("a.html", 1), remove("a.html"))

	fails := func(want string) {
		t.Helper()
		began := time.Now()
		n, failed, err := hooks().Turn(t.Context())
		w.must(err)
		if n != 0 || len(failed) != 1 || !strings.Contains(failed[0], want) {
			t.Errorf("%d changes accepted, failed: %q, want %q", n, failed, want)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %v", d)
		}
		st := hookStatus(t, hooks())
		if st.Behind != 3 || time.Until(st.RetryAt) < 30*time.Second {
			t.Errorf("after a failure: %+v", st)
		}
		w.forgetRetry() // as if the time had come
	}
	write("cat >/dev/null; echo no route to the CDN >&2; exit 3")
	fails("exit status 3: no route to the CDN")
	write("exec 0<&-; head -c 3000000 /dev/zero | tr '\\0' .; echo no route to the CDN >&2; exit 3")
	fails("....no route to the CDN")
	write("sleep 60 & sleep 60")
	most = 300 * time.Millisecond
	fails("it did not end within 300ms")

	out := filepath.Join(dir, "out")
	most = time.Minute
	// PARLEY_BASE would be an option: the command may run rdfgen for another site.
	write(`[ -z "$PARLEY_BASE" ] || exit 1; sleep 5 & { echo "$PARLEY_HOOK_BASE $PARLEY_HOOK_KIND $PARLEY_HOOK_CHANGES $PARLEY_HOOK_CURSOR $1"; cat; } >` + out)
	n, failed, err := hooks().Turn(t.Context())
	w.must(err)
	if n != 3 || len(failed) != 0 {
		t.Errorf("%d changes accepted, failed: %q", n, failed)
	}
	b := must.Get(os.ReadFile(out))
	head, rest, _ := bytes.Cut(b, []byte("\n"))
	check(t, "variables and argument", string(head), fmt.Sprintf("%s batch 3 %s $HOME;x", base, w.journal.Head()))
	var got []string
	for line := range bytes.Lines(rest) {
		m := must.Get(protocol.ParseMessage(bytes.TrimSpace(line)))
		got = append(got, fmt.Sprint(m.Kind, " ", m.Changes[0].Op, " ", m.To))
	}
	at := w.journal.Head()
	at.Seq = 0
	var want []string
	for _, op := range []protocol.Op{protocol.Create, protocol.Update, protocol.Delete} {
		at.Seq++
		want = append(want, fmt.Sprint("ev ", op, " ", at))
	}
	check(t, "lines", strings.Join(got, ", "), strings.Join(want, ", "))
}

// forgetRetry makes all hooks due.
func (w *world) forgetRetry() {
	w.t.Helper()
	notes := map[string][]byte{}
	w.must(w.journal.EachNote("on-change/", func(k string, v []byte) error {
		before, after, _ := bytes.Cut(v, []byte(`"retry_at":"`))
		_, after, _ = bytes.Cut(after, []byte(`",`))
		notes[k] = append(append([]byte{}, before...), after...)
		return nil
	}))
	w.must(w.journal.SetNotes(notes))
}

func TestWrongHooks(t *testing.T) {
	w := newWorld(t)
	for _, h := range []*ping.Hooks{
		{Options: ping.HookOptions{Journal: w.journal, Commands: []string{" "}}},
		{Options: ping.HookOptions{Journal: w.journal, URLs: []string{"ftp://cdn.example/"}}},
		{Options: ping.HookOptions{Journal: w.journal, URLs: []string{"https://user:password@cdn.example/"}}},
		{Options: ping.HookOptions{URLs: []string{hookURL}}},
	} {
		if err := h.Run(context.Background()); err == nil {
			t.Errorf("%+v runs", h)
		}
	}
}
