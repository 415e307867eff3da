package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/doors"
)

// follow polls the changes door until it is at the head, and returns the URLs in the bundles and the number
// of requests. Each bundle must start at the reader's cursor.
func (d *depot) follow(at protocol.Cursor, ref string) (urls []string, asked int) {
	d.Helper()
	for head := d.Journal.Head(); at != head; asked++ {
		m := d.told(ref + "&after=" + at.String())
		if m.From != at || m.To.Seq < at.Seq || asked > 1000 {
			d.Fatalf("polled %d times, at %v: %+v", asked, at, m)
		}
		if m.Kind == protocol.Bundle {
			b := m.Body.Bytes
			if m.Body.Href != "" {
				_, b = d.ask("GET", strings.TrimPrefix(m.Body.Href, d.Base), "", "")
			}
			h, list := d.unpack(b)
			if h.From != at || h.To != m.To {
				d.Fatalf("at %v the bundle is of %v to %v, and its message of %v to %v", at, h.From, h.To, m.From, m.To)
			}
			for _, p := range list {
				urls = append(urls, strings.TrimPrefix(p.Change.Item.URL, d.Base))
			}
		}
		at = m.To
	}
	return urls, asked
}

// Bundles of a filter's matches come whole, even with many unmatched or forbidden changes before and between
// them.
func TestFilteredBundlesHaveAllMatches(t *testing.T) {
	d := newArchivist(t)
	begin := d.Journal.Head()
	d.Write("robots.txt", "User-agent: *\nDisallow: /hidden/\n")
	d.Publish()
	for i := range 6 {
		d.Write(fmt.Sprintf("other/%d.html", i), "<p>other")
		d.Write(fmt.Sprintf("hidden/%d.html", i), "<p>hidden")
		d.Publish()
		d.Write(fmt.Sprintf("x/%d.html", i), "<p>wanted")
		d.Publish()
	}
	want := []string{"x/0.html", "x/1.html", "x/2.html", "x/3.html", "x/4.html", "x/5.html"}
	for _, more := range []string{"", "&count=1", "&count=2", "&limit=1", "&count=1&wait=5"} {
		got, _ := d.follow(begin, "as=batch&prefix=/x/"+more)
		if !slices.Equal(got, want) {
			t.Errorf("%q brings %v", more, got)
		}
	}
	// A long poll is answered with the change that follows the unmatched ones.
	at := d.Journal.Head()
	waits := make(chan protocol.Message)
	go func() { waits <- d.told("as=batch&prefix=/x/&wait=30&after=" + at.String()) }()
	until(t, "somebody waits", func() bool { return d.Notifier.Stats().Subscribers == 1 })
	d.Write("other/a.html", "<p>other")
	d.Publish()
	d.Write("x/a.html", "<p>wanted")
	d.Publish()
	m := <-waits
	got, _ := d.follow(m.To, "as=batch&prefix=/x/")
	if m.Kind == protocol.Bundle {
		h, list := d.unpack(m.Body.Bytes)
		if h.From != at {
			t.Errorf("the bundle is of %v, not %v", h.From, at)
		}
		got = append(got, strings.TrimPrefix(list[0].Change.Item.URL, d.Base))
	}
	if !slices.Equal(got, []string{"x/a.html"}) {
		t.Errorf("%v after %+v", got, m)
	}
}

// A limit on the changes of a bundle counts, up to the largest.
func TestBundleLimits(t *testing.T) {
	d := newDepot(t)
	begin := d.Journal.Head()
	for i := range protocol.MaxBatch + 1 {
		d.Write(fmt.Sprintf("x/%d.html", i), "x")
	}
	d.Publish()
	for more, want := range map[string]uint64{"": protocol.MaxBatch + 1, "&limit=1000": 1000, "&limit=7": 7, "&count=7&limit=1000": 7, "&count=1001": 1001} {
		if m := d.told("as=batch&after=" + begin.String() + more); m.To.Seq-begin.Seq != want {
			t.Errorf("%q: %d changes", more, m.To.Seq-begin.Seq)
		}
	}
}

// A crawler that robots.txt bars from a part of the site does not learn of deletions and moves there.
func TestDeletionsAndMovesAreHiddenFromForbiddenCaller(t *testing.T) {
	c := must.Get(callersOf(t, "evil "+evilToken+"\n"))
	var site *server.Site
	d := newArchivist(t, func(n *doors.Notifier) {
		n.Clients.Identify = c.Identify
		n.Clients.PublicTo = func(name, url string) bool { return site.PublicTo(name, url) }
	})
	site = &server.Site{Docroot: d.Root, Base: d.Base}
	d.Write("robots.txt", "User-agent: evil\nDisallow: /private/\n")
	d.Publish()
	begin := d.Journal.Head()
	d.Write("private/x.html", "<p>x, which moves")
	d.Write("private/z.html", "<p>z, which comes out")
	d.Write("open/w.html", "<p>w, which goes in")
	d.Publish()
	move := func(from, to string) {
		d.Must(os.MkdirAll(filepath.Dir(filepath.Join(d.Root, to)), 0o755))
		d.Must(os.Rename(filepath.Join(d.Root, from), filepath.Join(d.Root, to)))
		d.Publish()
	}
	move("private/x.html", "private/y.html")
	move("private/z.html", "open/z.html")
	move("open/w.html", "private/w.html")
	d.Must(os.Remove(filepath.Join(d.Root, "private/y.html")))
	d.Must(os.Remove(filepath.Join(d.Root, "open/z.html")))
	d.Publish()
	for _, door := range []string{"parley/changes?", "parley/changes?as=page&", "parley/changes?as=batch&", "parley/batch?"} {
		told := func(token string) string {
			resp, b := d.askAllAs(token, door+"after="+begin.String())
			if resp.StatusCode != 200 {
				t.Errorf("%s: status %d: %.200s", door, resp.StatusCode, b)
			}
			if strings.Contains(door, "batch") {
				if m, err := protocol.ParseMessage(b); err == nil {
					b = m.Body.Bytes
				}
				_, list := d.unpack(b)
				return fmt.Sprintf("%+v", list)
			}
			return string(b)
		}
		if text := told(evilToken); strings.Contains(text, "private/") || !strings.Contains(text, "open/w.html") || !strings.Contains(text, "open/z.html") {
			t.Errorf("%s delivers to the forbidden caller %s", door, text)
		}
		if text := told(""); !strings.Contains(text, "private/y.html") {
			t.Errorf("%s does not report the deletion to anonymous clients: %s", door, text)
		}
	}
	l := d.listen(begin, "", "Authorization", "Bearer "+evilToken)
	for l.at != d.Journal.Head() {
		for _, c := range l.next().Changes {
			if strings.Contains(c.Item.URL+c.From, "private/") {
				t.Errorf("the stream delivers to the forbidden caller %+v", c)
			}
		}
	}
}

// A filter that would need a link longer than any allowed URL is rejected at once.
func TestFilterTooLongForBundleURL(t *testing.T) {
	d := newArchivist(t, func(n *doors.Notifier) {
		n.Clients.Where = func(string) (caller.Predicate, error) {
			return func(context.Context, *protocol.Change) (bool, error) { return true, nil }, nil
		}
	})
	begin := d.Journal.Head()
	large := make([]byte, 3*protocol.MaxInline)
	rand.NewChaCha8([32]byte{}).Read(large)
	d.Write("large.html", string(large))
	d.Publish()
	ask := func(as, where string) (*http.Response, []byte) {
		q := url.Values{"as": {as}, "after": {begin.String()}, "where": {where}}
		return d.ask("POST", "parley/changes", "application/x-www-form-urlencoded", q.Encode())
	}
	resp, b := ask("batch", strings.Repeat("é", 1000))
	m := must.Get(protocol.ParseMessage(b))
	if u, err := protocol.CanonicalURL(d.Base, m.Body.Href); resp.StatusCode != 200 || err != nil || u == "" {
		t.Errorf("status %d: %v %.300s", resp.StatusCode, err, b)
	}
	if resp, b := ask("batch", strings.Repeat("é", 1700)); resp.StatusCode != 400 {
		t.Errorf("a bundle has a URL of %d characters: status %d: %.300s", len(m.Body.Href), resp.StatusCode, b)
	}
	if resp, b := ask("meta", strings.Repeat("é", 1700)); resp.StatusCode != 200 {
		t.Errorf("status %d: %.300s", resp.StatusCode, b)
	}
}

// goPrograms runs Go functions as programs: every program is the same function.
type goPrograms func(ctx context.Context, c *protocol.Change) (caller.Verdict, error)

func (goPrograms) Keep(_ context.Context, _ string, p []byte) (protocol.Digest, error) {
	return protocol.Sum(p), nil
}
func (goPrograms) Has(string, protocol.Digest) error { return nil }
func (f goPrograms) Run(ctx context.Context, _ string, _ protocol.Digest, c *protocol.Change, _, _ []byte) (caller.Verdict, error) {
	return f(ctx, c)
}

func runs(f goPrograms) func(*doors.Notifier) {
	return func(n *doors.Notifier) {
		n.Clients.Agents, n.Content.Items = f, server.Moments(n.Log.(*server.Journal))
		n.Clients.Identify = func(*http.Request) (caller.Caller, error) { return caller.Caller{Name: "bot", Agents: true}, nil }
	}
}

var program = "&agent=" + url.QueryEscape(protocol.Sum([]byte("a program")).String())

// A program is never run over a whole history in one response.
func TestBundlesRejectPrograms(t *testing.T) {
	d := newArchivist(t, runs(func(context.Context, *protocol.Change) (caller.Verdict, error) {
		return caller.Verdict{Tell: true}, nil
	}))
	at := d.Journal.Head().String()
	for _, ref := range []string{"parley/changes?as=batch&after=" + at + program, "parley/batch?after=" + at + program} {
		resp, b := d.ask("GET", ref, "", "")
		var p struct{ Parameter string }
		if err := json.Unmarshal(b, &p); err != nil || resp.StatusCode != 400 || p.Parameter != "agent" {
			t.Errorf("%s: status %d: %s", ref, resp.StatusCode, b)
		}
	}
	if _, err := d.dial("as=batch&after="+at+program, wsconn.Options{}); statusOf(err) != 400 {
		t.Errorf("stream: %v", err)
	}
	if resp, b := d.ask("GET", "parley/changes?as=page&after="+at+program, "", ""); resp.StatusCode != 200 {
		t.Errorf("status %d: %s", resp.StatusCode, b)
	}
}

// A program's outputs for many changes are split into several messages, and it runs little more than once for
// each change.
func TestProgramWithLargeOutputsRunsOncePerChange(t *testing.T) {
	asked := atomic.Int64{}
	d := newArchivist(t, runs(func(context.Context, *protocol.Change) (caller.Verdict, error) {
		asked.Add(1)
		return caller.Verdict{Tell: true, Output: make([]byte, 200<<10)}, nil
	}))
	begin := d.Journal.Head()
	for i := range 32 {
		d.Write(fmt.Sprintf("p%d.html", i), "<p>")
	}
	d.Publish()
	outputs := 0
	for at := begin; at != d.Journal.Head(); {
		m := d.told("after=" + at.String() + program)
		at, outputs = m.To, outputs+len(m.Bodies)
	}
	if outputs != 32 || asked.Load() > 2*32 {
		t.Errorf("%d outputs of 32, the program was called %d times", outputs, asked.Load())
	}
}

// A program run over all pages is not cut off if it, or a filter, rejects all of many pages: a line is sent
// before the client gives up.
func TestProgramWithoutMatchesKeepsConnection(t *testing.T) {
	const patience = 400 * time.Millisecond
	d := newDepot(t, runs(func(context.Context, *protocol.Change) (caller.Verdict, error) {
		return caller.Verdict{}, nil
	}), func(n *doors.Notifier) {
		n.Limits.WriteWait = patience
		n.Clients.Where = func(string) (caller.Predicate, error) {
			return func(ctx context.Context, c *protocol.Change) (bool, error) {
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
				return false, nil
			}, nil
		}
	})
	for i := range 60 {
		d.Write(fmt.Sprintf("p%d.html", i), "<p>")
	}
	d.Publish()
	begun := time.Now()
	resp, b := d.ask("POST", "parley/agents/run?where=none"+program, "", "")
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	var end protocol.AgentEnd
	d.Must(json.Unmarshal([]byte(lines[len(lines)-1]), &end))
	if took := time.Since(begun); resp.StatusCode != 200 || end.To != d.Journal.Head() || end.Pages != 0 || took < 2*patience || len(lines) < int(took/patience) {
		t.Errorf("status %d after %v: %q", resp.StatusCode, took, b)
	}
	for _, name := range []string{"op=create", "minsig=0.5"} {
		if resp, b := d.ask("POST", "parley/agents/run?"+name+program, "", ""); resp.StatusCode != 400 {
			t.Errorf("%s: status %d: %s", name, resp.StatusCode, b)
		}
	}
}

// While other clients' expressions keep the site busy, a request with an expression gets a retry answer;
// requests without one are answered, and so are those being evaluated, even if that outlasts WriteWait.
func TestBusySiteRejectsOnlyExpressions(t *testing.T) {
	const patience = time.Second // an answer takes a quarter of it, or more on a busy machine
	working, free := make(chan struct{}, 100), make(chan struct{})
	d := newArchivist(t, func(n *doors.Notifier) {
		n.Limits.WriteWait, n.Content.Items = patience, server.Moments(n.Log.(*server.Journal))
		n.Clients.Where = func(string) (caller.Predicate, error) {
			return func(ctx context.Context, _ *protocol.Change) (bool, error) {
				select {
				case working <- struct{}{}:
				default:
				}
				select {
				case <-free:
				case <-ctx.Done():
				}
				return true, ctx.Err()
			}, nil
		}
	})
	begin := d.Journal.Head()
	d.Write("a.html", "<p>2")
	d.Publish()
	var busy sync.WaitGroup
	ask := func(ref string) {
		busy.Go(func() {
			if m := d.told(ref + "&where=x&after=" + begin.String()); m.To != d.Journal.Head() {
				t.Errorf("%+v", m)
			}
		})
	}
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	for range turns {
		ask("")
	}
	for range turns {
		<-working
	}
	begun := time.Now()
	for i := 0; time.Since(begun) < 2*patience || i < 2; i++ {
		for _, ref := range []string{"parley/changes?as=page&after=" + begin.String(), "parley/batch?after=" + begin.String(), "parley/query?prefix=/a"} {
			resp, b := d.ask("GET", ref+"&where=x", "", "")
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s: status %d: %s", ref, resp.StatusCode, b)
			}
			if resp, b := d.ask("GET", ref, "", ""); resp.StatusCode != 200 {
				t.Errorf("%s, without an expression: status %d: %s", ref, resp.StatusCode, b)
			}
		}
	}
	stream := d.listen(begin, "&as=page")
	close(free)
	busy.Wait()
	if m := stream.next(); m.Kind != protocol.Ev || m.To != d.Journal.Head() {
		t.Errorf("%+v", m)
	}
}
