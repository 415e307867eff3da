package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/doors"
)

const (
	goodToken  = "token-of-good-0123456789"
	evilToken  = "token-of-evil-0123456789"
	plainToken = "token-of-plain-123456789"
)

func callersOf(t *testing.T, text string) (*caller.Callers, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "callers")
	must.Write(t, name, text)
	return caller.Read(name)
}

func TestReadCallers(t *testing.T) {
	c := must.Get(callersOf(t, "# who may ask\n\nGoodBot "+goodToken+" agents # ours\nevilbot\t"+evilToken+"\r\nevilbot another-token-of-evil\n"))
	for said, want := range map[string]caller.Caller{
		"":                             {},
		"Basic dXNlcjpwYXNzd29yZA==":   {},
		"Bearer " + goodToken:          {Name: "GoodBot", Agents: true},
		"bearer  " + evilToken + " ":   {Name: "evilbot"},
		"Bearer another-token-of-evil": {Name: "evilbot"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if said != "" {
			r.Header.Set("Authorization", said)
		}
		if got, err := c.Identify(r); got != want || err != nil {
			t.Errorf("%q: %+v, %v", said, got, err)
		}
	}
	for _, said := range []string{"Bearer", "Bearer x", "Bearer " + goodToken + "x", "Bearer " + goodToken[1:]} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", said)
		if got, err := c.Identify(r); err == nil || got != (caller.Caller{}) {
			t.Errorf("%q: %+v, %v", said, got, err)
		}
	}
	for text, why := range map[string]string{
		"GoodBot":                                    "line 1: want NAME TOKEN",
		"\nGoodBot " + goodToken + " all":            "line 2: after NAME and TOKEN",
		"Good/1.0 " + goodToken:                      "line 1: a name is letters",
		"* " + goodToken:                             "line 1: a name is letters",
		"GoodBot short":                              "fewer than 16 characters",
		"a " + goodToken + "\nb " + goodToken:        "line 2: same token as a",
		"a " + goodToken + " agents\na " + evilToken: "line 2: the word agents must be on all lines of a or on none",
		strings.Repeat("#\n", 1<<20):                 "more than 1048576 bytes",
		manyCallers(1001):                            "line 1001: more than 1000 callers",
	} {
		_, err := callersOf(t, text)
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), goodToken) {
			t.Errorf("%.60q: %v, want %q", text, err, why)
		}
	}
	if _, err := caller.Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// callersFile returns the name of a file of callers, and how to write it with the time of the test.
func callersFile(t *testing.T) (name string, write func(text string)) {
	name = filepath.Join(t.TempDir(), "callers")
	return name, func(text string) {
		t.Helper()
		must.OK(t, errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, time.Now(), time.Now())))
	}
}

// A line that is added or removed counts from the next read of the file on, and an unreadable line changes
// nothing.
func TestCallersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name, write := callersFile(t)
		write("good " + goodToken + "\nevil " + evilToken + "\n")
		c := must.Get(caller.Read(name))
		var logged bytes.Buffer
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		known := func(when, want string) {
			t.Helper()
			var got []string
			for _, token := range []string{goodToken, evilToken, plainToken} {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Authorization", "Bearer "+token)
				if who, err := c.Identify(r); err == nil {
					got = append(got, who.Name)
				}
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%s: known are %s, want %s", when, s, want)
			}
		}
		said := func(when, what string, want int) {
			t.Helper()
			if n := strings.Count(logged.String(), what); n != want {
				t.Errorf("%s: %q %d times, want %d: %s", when, what, n, want, &logged)
			}
		}
		known("at first", "good evil")
		time.Sleep(900 * time.Millisecond)
		write("good " + goodToken + "\nplain " + plainToken[:16]) // the file is half written
		time.Sleep(100 * time.Millisecond)
		known("while it is written", "good evil")
		write("good " + goodToken + "\nplain " + plainToken + "\n")
		time.Sleep(time.Second)
		known("one caller removed, one added", "good plain")
		said("then", "reloaded", 1)
		for text, want := range map[string]string{
			"good " + goodToken + "\nevil " + evilToken + "\nplain\n": "line 3",
			strings.Repeat("#\n", 1<<20):                              "more than",
		} {
			write(text)
			for range 3 {
				time.Sleep(time.Second)
				known(want, "good plain")
			}
			said("broken", want, 1)
		}
		for n := range 2 { // it is gone, then faulty as before: both are logged
			must.OK(t, os.Remove(name))
			for range 3 {
				time.Sleep(time.Second)
				known("the file is removed", "good plain")
			}
			said("gone", "no such file", n+1)
			write("plain\n")
			for range 3 {
				time.Sleep(time.Second)
				known("invalid again", "good plain")
			}
			said("invalid again", "line 1", n+1)
		}
		write("good " + goodToken + "\nplain " + plainToken + "\n")
		time.Sleep(time.Second)
		known("as it was", "good plain")
		write("evil " + evilToken + "\n")
		time.Sleep(time.Second)
		known("the file is back", "evil")
		write("")
		time.Sleep(time.Second)
		known("empty file", "")
	})
}

// A stuckLog blocks every write until it is closed.
type stuckLog chan struct{}

func (l stuckLog) Write(b []byte) (int, error) {
	<-l
	return len(b), nil
}

// While the request that rereads the file takes long, all others are answered.
func TestSlowCallersFileDelaysOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name, write := callersFile(t)
		write("good " + goodToken + "\n")
		c := must.Get(caller.Read(name))
		stuck := make(stuckLog)
		c.Logger = slog.New(slog.NewTextHandler(stuck, nil))
		answered := make(chan error, 10)
		ask := func() {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+goodToken)
			go func() {
				_, err := c.Identify(r)
				answered <- err
			}()
			synctest.Wait()
		}
		write("good " + goodToken + " nonsense\n")
		for n := range 5 {
			time.Sleep(time.Second)
			ask()
			if len(answered) != n {
				t.Errorf("%d of %d requests are answered, want all but the first", len(answered), n+1)
			}
		}
		close(stuck)
		for range 5 {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		write("evil " + evilToken + "\n")
		time.Sleep(time.Second)
		ask()
		if err := <-answered; err == nil {
			t.Error("the file is not reread any more")
		}
	})
}

// A subscriber gets nothing more once its token is no longer known.
func TestSubscriberWithRevokedTokenGetsNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "callers")
	write := func(text string) {
		must.Write(t, name, text)
	}
	write("good " + goodToken + "\nevil " + evilToken + "\n")
	c := must.Get(caller.Read(name))
	d := newDepot(t, func(n *doors.Notifier) { n.Clients.Identify = c.Identify })
	begin := d.Journal.Head()
	anybody, good := d.listen(begin, ""), d.listen(begin, "", "Authorization", "Bearer "+goodToken)
	evil := d.listen(begin, "", "Authorization", "Bearer "+evilToken)
	polled := make(chan int)
	go func() {
		resp, _ := d.askAs(evilToken, "parley/changes?wait=60&after="+begin.String())
		polled <- resp.StatusCode
	}()
	until(t, "all are subscribed", func() bool { return d.Notifier.Stats().Subscribers == 4 })
	write("good " + goodToken + "\n")
	until(t, "the token is rejected", func() bool {
		resp, _ := d.askAs(evilToken, "parley/changes")
		return resp.StatusCode == 401
	})
	d.Write("new.html", "<p>new")
	d.Publish()
	for _, l := range []*teller{anybody, good} {
		if m := l.next(); len(m.Changes) != 1 || m.Changes[0].Item.URL != d.Base+"new.html" {
			t.Errorf("%+v", m)
		}
	}
	if m := evil.next(); m.Kind != protocol.Bye || m.Code != protocol.ClosePolicy {
		t.Errorf("%+v", m)
	}
	if status := <-polled; status != 401 {
		t.Errorf("the long poll: status %d", status)
	}
}

func manyCallers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "bot token-number-%010d\n", i)
	}
	return b.String()
}

func FuzzCallers(f *testing.F) {
	f.Add("GoodBot " + goodToken + " agents # x")
	f.Add("a\x00 b\r\n\xff")
	name := filepath.Join(f.TempDir(), "callers")
	f.Fuzz(func(t *testing.T, text string) {
		must.Write(t, name, text)
		c, err := caller.Read(name)
		if err != nil {
			return
		}
		r := httptest.NewRequest("GET", "/", nil)
		if who, err := c.Identify(r); err != nil || who != (caller.Caller{}) {
			t.Errorf("an anonymous client is %+v, %v", who, err)
		}
	})
}

// robots.txt has rules for an identified crawler: they apply at every door, in addition to the rules for
// everybody (C30).
func TestEveryDoorAppliesRulesOfItsCaller(t *testing.T) {
	c := must.Get(callersOf(t, "good "+goodToken+"\nevil "+evilToken+"\nplain "+plainToken+"\n"))
	var maker *archive.Maker
	var site *server.Site
	d := newArchivist(t, func(n *doors.Notifier) {
		j := n.Log.(*server.Journal)
		maker = &archive.Maker{Dir: t.TempDir(), Base: n.Base, Journal: j, Pages: n.Content.Pages, Public: n.Public}
		n.Content.Archive, n.Content.Items, n.Clients.Identify = maker, server.Moments(j), c.Identify
		n.Clients.PublicTo = func(name, url string) bool { return site.PublicTo(name, url) }
	})
	site = &server.Site{Docroot: d.Root, Base: d.Base}
	d.Write("robots.txt", "User-agent: *\nDisallow: /hidden/\n\nUser-agent: evil\nDisallow: /for-good/\n\nUser-agent: good\nAllow: /\n")
	d.Publish()
	begin := d.Journal.Head()
	d.Write("for-good/x.html", "<p>for the good")
	d.Write("hidden/y.html", "<p>for nobody")
	d.Write("z.html", "<p>for all")
	d.Publish()
	ctx, end := context.WithCancel(t.Context())
	making := make(chan error)
	go func() { making <- maker.Run(ctx) }()
	defer func() { end(); <-making }()
	first := d.listen(protocol.Cursor{}, "&as=site")
	for m := first.next(); m.Kind != protocol.Archive; m = first.next() {
	}

	after := "after=" + begin.String()
	for _, door := range []string{"parley/changes?" + after, "parley/changes?as=page&" + after, "parley/changes?as=delta&" + after,
		"parley/changes?as=batch&" + after, "parley/batch?" + after, "parley/query", "parley/site.wacz", "parley/changes?as=site&" + after} {
		for token, sees := range map[string]bool{"": true, goodToken: true, plainToken: true, evilToken: false} {
			resp, b := d.askAllAs(token, door)
			whole := strings.Contains(door, "site")
			if whole {
				if want := map[bool]int{true: 200, false: 403}[sees]; resp.StatusCode != want || !sees && !strings.Contains(string(b), "as=batch") {
					t.Errorf("%s as %q: status %d: %.200s", door, token, resp.StatusCode, b)
				}
				continue
			}
			text := string(b)
			if strings.HasPrefix(door, "parley/batch") || strings.Contains(door, "as=batch") {
				if m, err := protocol.ParseMessage(b); err == nil {
					b = m.Body.Bytes
				}
				_, list := d.unpack(b)
				text = fmt.Sprintf("%+v", list)
			}
			if resp.StatusCode != 200 || strings.Contains(text, "for-good") != sees || strings.Contains(text, "hidden") || !strings.Contains(text, "z.html") {
				t.Errorf("%s as %q: status %d: %.500s", door, token, resp.StatusCode, text)
			}
		}
		if resp, b := d.askAs("some-token-that-nobody-has", door); resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: status %d: %.200s", door, resp.StatusCode, b)
		}
	}
	for token, want := range map[string]string{goodToken: "create for-good/x.html, create z.html", evilToken: "create z.html"} {
		l := d.listen(begin, "", "Authorization", "Bearer "+token)
		m := l.next()
		var got []string
		for _, c := range m.Changes {
			got = append(got, string(c.Op)+" "+strings.TrimPrefix(c.Item.URL, d.Base))
		}
		if told := strings.Join(got, ", "); !sameWords(told, want) {
			t.Errorf("the stream delivers %s, want %s", told, want)
		}
	}
	if _, err := d.dial("after="+begin.String(), wsconn.Options{}, "Authorization", "Bearer nonsense-that-is-long"); statusOf(err) != 401 {
		t.Errorf("stream: %v", err)
	}
	if _, err := d.dial("as=site", wsconn.Options{}, "Authorization", "Bearer "+evilToken); statusOf(err) != 403 {
		t.Errorf("stream of the site: %v", err)
	}
}

func sameWords(a, b string) bool {
	x, y := map[string]bool{}, map[string]bool{}
	for _, s := range strings.Split(a, ", ") {
		x[s] = true
	}
	for _, s := range strings.Split(b, ", ") {
		y[s] = true
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// askAllAs asks until a message of changes leads to the head, see toldAll.
func (d *depot) askAllAs(token, ref string) (*http.Response, []byte) {
	d.Helper()
	for {
		resp, b := d.askAs(token, ref)
		m, err := protocol.ParseMessage(b)
		if resp.StatusCode != 200 || err != nil || m.Kind != protocol.Batch || m.To == d.Journal.Head() {
			return resp, b
		}
	}
}

func (d *depot) askAs(token, ref string) (*http.Response, []byte) {
	d.Helper()
	req := must.Get(http.NewRequestWithContext(d.Context(), "GET", d.Base+ref, nil))
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return d.do(req)
}
