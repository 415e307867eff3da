package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/must"
)

// A desk is a page with two sections, on a server that is reached in memory.
type desk struct {
	*testing.T
	page   *admin.Page
	accept chan net.Conn
	server *http.Server
	ended  chan error
	close  func() // ends the streams

	mu    sync.Mutex // guards the rest
	texts map[string]string
	reads int
}

func openDesk(t *testing.T) *desk {
	done := make(chan struct{})
	d := &desk{T: t, accept: make(chan net.Conn), ended: make(chan error, 1), close: sync.OnceFunc(func() { close(done) }), texts: map[string]string{"a": "first", "b": "second"}}
	d.page = &admin.Page{Title: "https://www.example.org/", Subtitle: "test", Done: done,
		Sections: []admin.Section{{ID: "needs", Title: "Needs a person", Alert: true}, {ID: "rest", Title: "The rest"}},
		Read: func(context.Context) ([]g.Node, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.reads++
			return []g.Node{h.P(g.Text(d.texts["a"])), h.P(g.Text(d.texts["b"]))}, nil
		}}
	m := http.NewServeMux()
	m.Handle("GET /{$}", d.page)
	m.HandleFunc("GET /events", d.page.Events)
	d.server = &http.Server{Handler: m}
	go func() { d.ended <- d.server.Serve(d) }()
	return d
}

// The methods of net.Listener.
func (d *desk) Accept() (net.Conn, error) {
	if c, ok := <-d.accept; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (d *desk) Close() error   { close(d.accept); return nil }
func (d *desk) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// set changes what a section shows.
func (d *desk) set(name, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.texts[name] = text
}

func (d *desk) read() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// dial connects, and sends a request for events after a rendering.
func (d *desk) dial(after string) net.Conn {
	ours, theirs := net.Pipe()
	d.accept <- theirs
	if _, err := ours.Write([]byte("GET /events?after=" + after + " HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
		d.Error(err)
	}
	return ours
}

// A viewer reads the events of a page.
type viewer struct {
	conn   net.Conn
	status int
	events chan event // closed at the end of the stream
}

type event struct {
	id, name string
	sections map[string]string
}

func (d *desk) view(after string) *viewer {
	v := &viewer{conn: d.dial(after), events: make(chan event, 1000)}
	resp := must.Get(http.ReadResponse(bufio.NewReader(v.conn), nil))
	v.status = resp.StatusCode
	go func() {
		defer close(v.events)
		defer v.conn.Close()
		var e event
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			name, value, _ := strings.Cut(s.Text(), ": ")
			switch {
			case name == "id":
				e.id = value
			case name == "event":
				e.name = value
			case name == "data":
				json.Unmarshal([]byte(value), &e.sections)
			case s.Text() == "" && (e.id != "" || e.name != ""):
				v.events <- e
				e = event{}
			}
		}
	}()
	return v
}

// now returns the events that have arrived, in words.
func (v *viewer) now() (list []string) {
	synctest.Wait()
	for {
		select {
		case e, ok := <-v.events:
			if !ok {
				return append(list, "end")
			}
			text := e.name
			for _, id := range []string{"needs", "rest"} {
				if html, ok := e.sections[id]; ok {
					text += id + " " + html + " "
				}
			}
			list = append(list, strings.TrimSpace(text))
		default:
			return list
		}
	}
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// Two people have the page open. Each gets the sections that change, once, from one rendering in a second; then the program ends.
func TestSectionsFollowTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t)
		one, two := d.view("0"), d.view("0")
		same(t, "at first", one.now(), "needs <p>first</p> rest <p>second</p>")
		same(t, "at first", two.now(), "needs <p>first</p> rest <p>second</p>")
		time.Sleep(5 * time.Second)
		same(t, "without a change", one.now())
		d.set("b", "changed <b>")
		time.Sleep(2 * time.Second)
		same(t, "after a change", one.now(), "rest <p>changed &lt;b&gt;</p>")
		same(t, "after a change", two.now(), "rest <p>changed &lt;b&gt;</p>")
		d.set("a", "on and off")
		d.set("a", "first")
		n := d.read()
		d.page.Renew()
		v := d.view("0")
		if same(t, "after a form", v.now(), "needs <p>first</p> rest <p>changed &lt;b&gt;</p>"); d.read() != n+1 {
			t.Errorf("the page was rendered %d times after a form", d.read()-n)
		}
		v.conn.Close()
		time.Sleep(14 * time.Second)
		same(t, "after silence", one.now(), "beat")
		if n := d.read(); n < 15 || n > 24 {
			t.Errorf("the data was read %d times in 21 s", n)
		}
		d.close()
		end, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := d.server.Shutdown(end); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-d.ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if got := one.now(); got[len(got)-1] != "end" {
			t.Errorf("the stream has not ended: %q", got)
		}
		two.now()
	})
}

// Three people have the page open while it changes ten thousand times: each gets every change, and memory and goroutines do not grow.
func TestTenThousandUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t)
		d.page.Every = 100 * time.Millisecond
		var got [3]int
		var reading sync.WaitGroup
		for i := range got {
			v := d.view("0")
			reading.Go(func() {
				for range v.events {
					got[i]++
				}
			})
		}
		measure := func() (heap uint64, goroutines int) {
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc, runtime.NumGoroutine()
		}
		var heap uint64
		var goroutines int
		time.Sleep(d.page.Every / 2) // between two renderings
		for i := range 10_000 {
			d.set("b", strconv.Itoa(i))
			time.Sleep(d.page.Every)
			if i == 1000 {
				heap, goroutines = measure()
			}
		}
		if h, g := measure(); h > heap+200_000 || g != goroutines {
			t.Errorf("after 1,000 updates the heap has %d bytes, after 10,000 it has %d; goroutines: %d and %d", heap, h, goroutines, g)
		}
		d.close()
		d.server.Close()
		reading.Wait()
		if min(got[0], got[1], got[2]) < 9_990 {
			t.Errorf("the viewers got %d updates", got)
		}
	})
}

// A browser that comes back gets what changed meanwhile, also from a program that was restarted.
func TestComingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t)
		defer d.server.Close()
		defer d.close()
		v := d.view("0")
		synctest.Wait()
		id := (<-v.events).id
		v.conn.Close()
		same(t, "connection lost", v.now(), "end")
		v = d.view(id)
		same(t, "back at once", v.now())
		v.conn.Close()
		d.set("a", "news")
		time.Sleep(time.Minute)
		v = d.view(id)
		same(t, "back after a change", v.now(), "needs <p>news</p>")
		v.conn.Close()
		for name, after := range map[string]string{"an earlier process": "1", "a clock that was ahead": "9999999999999999999", "nonsense": "x"} {
			v = d.view(after)
			same(t, name, v.now(), "needs <p>news</p> rest <p>second</p>")
			v.conn.Close()
		}
		n := d.read()
		time.Sleep(time.Hour)
		if d.read() != n {
			t.Errorf("the data was read %d times without a viewer", d.read()-n)
		}
	})
}

// There is room for one viewer. One that does not read loses it to another, and nobody holds a stream for ever.
func TestViewersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t)
		defer d.server.Close()
		defer d.close()
		d.page.Viewers = 1
		mute := d.dial("0")
		synctest.Wait()
		if v := d.view("0"); v.status != http.StatusServiceUnavailable {
			t.Errorf("a second viewer: %d", v.status)
		}
		time.Sleep(11 * time.Second)
		v := d.view("0")
		if v.status != http.StatusOK {
			t.Errorf("after the first one did not read: %d", v.status)
		}
		mute.Close()
		time.Sleep(2 * time.Hour)
		if got := v.now(); got[len(got)-1] != "end" {
			t.Errorf("after two hours: %q", got[len(got)-1])
		}
	})
}

// What comes from outside is escaped and cut, however long; and the page has it without any script.
func TestSnapshotOfHostileText(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`<script>alert(1)</script>`, `<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>`},
		{`"><img src=x onerror=alert(1)>`, `<p>&#34;&gt;&lt;img src=x onerror=alert(1)&gt;</p>`},
		{strings.Repeat("é", 10<<20), `<p>` + strings.Repeat("é", 40) + `…</p>`},
		{"a\u202egnp.exe\x00\x1b[2J\xff\nb", "<p>a\ufffdgnp.exe\ufffd\ufffd[2J\ufffd b</p>"},
		{"می\u200cخواهم", "<p>می\u200cخواهم</p>"},
		{strings.Repeat("x", 40), "<p>" + strings.Repeat("x", 40) + "</p>"},
	} {
		page := &admin.Page{Title: tt.text, Sections: []admin.Section{{ID: "a", Title: "A"}, {ID: "empty", Title: "Empty"}},
			Read: func(context.Context) ([]g.Node, error) {
				return []g.Node{h.P(g.Text(admin.Cut(40, tt.text))), nil}, nil
			}}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		body := w.Body.String()
		if w.Code != 200 || !strings.Contains(body, tt.want) || len(body) > 5000 || strings.Contains(body, "<script>") || strings.Contains(body, "<img") {
			t.Errorf("%.40q: %d: %.5000s", tt.text, w.Code, body)
		}
		if !strings.Contains(body, "<noscript>") || !strings.Contains(body, `<section id="empty" aria-labelledby="title-empty" hidden>`) {
			t.Errorf("the snapshot is %s", body)
		}
	}
	page := &admin.Page{Read: func(context.Context) ([]g.Node, error) { return nil, errors.New("the journal <is> damaged") }}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "the journal &lt;is&gt; damaged") {
		t.Errorf("without data: %d: %s", w.Code, w.Body)
	}
}

func TestFormats(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	n, zero := uint64(1234), time.Time{}
	got := fmt.Sprint(admin.Count(n), " ", admin.Count(-1234567), " ", admin.Count(999), " ", admin.Size(1500), " ", admin.Percent(.1234), " ", admin.Percent(-1), " ", admin.Ago(at), " ",
		admin.Ago(zero), " ", admin.At(at), " ", admin.At(zero), " ", admin.Many(1, "page", "pages"), " ", admin.Many(n, "page", "pages"))
	const want = "1\u202f234 -1\u202f234\u202f567 999 1.5 kB 12.3 % unknown <time datetime=\"2026-01-02T02:04:05Z\">2026-01-02 02:04 UTC</time> never 2026-01-02 02:04 UTC never 1 page 1\u202f234 pages"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
