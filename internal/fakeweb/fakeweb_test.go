package fakeweb_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// get asks as a plain client.
func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp := must.Get(c.Get(url))
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))
	return resp, string(body)
}

// client asks a Web, whatever the host.
func client(w *fakeweb.Web, s *fakeweb.Site) *http.Client {
	t := &http.Transport{DialContext: w.Dial, DisableKeepAlives: true}
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Host, r.URL.Host = s.Host, s.IP.String()
		return t.RoundTrip(r)
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnHonestSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 1, Sites: 1, Kinds: []fakeweb.Kind{fakeweb.Honest}, Pages: 20, Speak: 100})
		defer w.Close()
		s := w.Sites()[0]
		c := client(w, s)

		// The pages that links reach are those that the site has and that its manifest lists.
		seen, todo := map[string]bool{"/": true}, []string{"/"}
		for len(todo) > 0 {
			path := todo[0]
			todo = todo[1:]
			resp, body := get(t, c, s.Origin+path)
			if resp.StatusCode != 200 {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
			for _, part := range strings.Split(body, `<a href="/`)[1:] {
				next, _, _ := strings.Cut(part, `"`)
				if next = "/" + next; !seen[next] {
					seen[next], todo = true, append(todo, next)
				}
			}
		}
		if len(seen) != len(s.Paths()) {
			t.Errorf("%d of %d pages can be reached", len(seen), len(s.Paths()))
		}
		_, text := get(t, c, s.Origin+"/robots.rdf")
		r := protocol.NewManifestReader(strings.NewReader(text), protocol.ManifestOptions{URL: s.Origin + "/robots.rdf"})
		items := 0
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if body, _ := s.Body(strings.TrimPrefix(rec.Item.URL, s.Origin)); protocol.Sum([]byte(body)) != rec.Item.Digest {
				t.Errorf("%s does not match the manifest", rec.Item.URL)
			}
			items++
		}
		if items != len(seen) {
			t.Errorf("%d items for %d pages", items, len(seen))
		}

		// A waiting request gets an edit at once.
		go func() {
			time.Sleep(20 * time.Second)
			s.Edit("/")
		}()
		begin := time.Now()
		_, text = get(t, c, s.Origin+"/parley/changes?after=fake:0&wait=30")
		m, err := protocol.ParseMessage([]byte(strings.TrimSpace(text)))
		if err != nil || len(m.Changes) != 1 || m.Changes[0].Item.URL != s.Origin+"/" || time.Since(begin) != 20*time.Second {
			t.Errorf("notified after %v: %v, %v", time.Since(begin), m, err)
		}
		before, _ := get(t, c, s.Origin+"/")
		again := must.Get(http.NewRequest("GET", s.Origin+"/", nil))
		again.Header.Set("If-None-Match", before.Header.Get("ETag"))
		if resp, err := c.Do(again); err != nil || resp.StatusCode != 304 {
			t.Errorf("fetched again: %v, %v", resp, err)
		}
		s.Delete("/")
		if resp, _ := get(t, c, s.Origin+"/"); resp.StatusCode != 404 {
			t.Errorf("deleted: %d", resp.StatusCode)
		}
	})
}

// The log distinguishes a polite visitor from others.
func TestImpolite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fakeweb.New(fakeweb.Options{Seed: 2, Sites: 1, Kinds: []fakeweb.Kind{fakeweb.Forbidding}})
		defer w.Close()
		s := w.Sites()[0]
		s.Latency = time.Second
		c := client(w, s)
		m := fakeweb.Manners{Gap: 10 * time.Second, Robots: true, Delay: true}
		check := func(want int, about string) {
			t.Helper()
			got := w.Impolite(m)
			if len(got) != want || want > 0 && !strings.Contains(got[0], about) {
				t.Errorf("%q, want %d about %q", got, want, about)
			}
			w.Forget()
		}
		get(t, c, s.Origin+"/robots.txt")
		time.Sleep(20 * time.Second)
		get(t, c, s.Origin+"/")
		check(0, "")

		get(t, c, s.Origin+"/")
		check(1, "before robots.txt")

		get(t, c, s.Origin+"/robots.txt")
		time.Sleep(19 * time.Second) // the site wants 20
		get(t, c, s.Origin+"/")
		check(1, "want 20s")

		get(t, c, s.Origin+"/robots.txt")
		time.Sleep(20 * time.Second)
		get(t, c, s.Origin+"/private/1")
		check(1, "forbidden")

		get(t, c, s.Origin+"/robots.txt")
		time.Sleep(20 * time.Second)
		go func() {
			if resp, err := c.Get(s.Origin + "/"); err == nil {
				resp.Body.Close()
			}
		}()
		time.Sleep(time.Second / 2)
		get(t, c, s.Origin+"/")
		check(1, "two requests at once")
	})
}

// The same seed makes the same Web.
func TestSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		describe := func(seed uint64) string {
			w := fakeweb.New(fakeweb.Options{Seed: seed, Sites: 50})
			defer w.Close()
			var b strings.Builder
			for _, s := range w.Sites() {
				for _, path := range s.Paths() {
					body, _ := s.Body(path)
					b.WriteString(s.Origin + path + s.Robots + body)
				}
			}
			return b.String()
		}
		if again := describe(1); describe(1) != again || again == describe(2) {
			t.Error("equal seeds give different webs")
		}
	})
}
