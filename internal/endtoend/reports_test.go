package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
)

// A believing is a crawler that runs on a site with all default options except those that a test site needs.
type believing struct {
	*rig
	crawling
}

// listen starts the programs, and waits until that many pages are stored and the site is followed.
func listen(t *testing.T, r *rig, pages int, flags ...string) *believing {
	t.Helper()
	b := &believing{rig: r, crawling: crawling{t: t, dir: filepath.Join(t.TempDir(), "crawl"), args: append([]string{"run", r.base}, flags...)}}
	r.startNotifier()
	b.start()
	r.crawler = b.p
	b.rig.until("all pages are stored, and the site is followed", func() bool {
		s := b.status()
		return s.Held >= pages && s.Followed == 1
	})
	b.rig.until("no page is due soon", b.quiet)
	return b
}

// quiet reports whether the crawler has nothing to fetch in the next half minute.
func (b *believing) quiet() bool {
	out, _ := run(b.rig.t, "crawler", "pages", "--into", b.dir, "--format", "json")
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var row struct{ Next time.Time }
		if err := dec.Decode(&row); err == io.EOF {
			return true
		} else if err != nil || time.Until(row.Next) < 30*time.Second {
			return false
		}
	}
}

type crawlStatus struct{ Held, Truncated, Ready, Followed, Busy int }

func (b *believing) status() (s crawlStatus) {
	out, code := run(b.rig.t, "crawler", "status", b.dir, "--json")
	if code == 0 {
		json.Unmarshal([]byte(out), &s)
	}
	return s
}

// row returns the row of a URL or an origin from "crawler NAME --format json".
func (b *believing) row(name, key, of string) map[string]any {
	b.rig.t.Helper()
	out, code := run(b.rig.t, "crawler", name, "--into", b.dir, "--format", "json")
	if code != 0 {
		b.rig.t.Fatalf("crawler %s: %s", name, out)
	}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		row := map[string]any{}
		if err := dec.Decode(&row); err == io.EOF {
			b.rig.t.Fatalf("crawler %s does not name %s", name, of)
		} else if err != nil {
			b.rig.t.Fatal(err)
		}
		if row[key] == of {
			return row
		}
	}
}

// why returns the output of "crawler why" for a page.
func (b *believing) why(url string) string {
	b.rig.t.Helper()
	out, code := run(b.rig.t, "crawler", "why", url, "--into", b.dir)
	if code != 0 {
		b.rig.t.Fatalf("crawler why: %s", out)
	}
	return out
}

// pushed edits a page, and reports whether it was fetched in time.
func (b *believing) pushed(name string, within time.Duration) bool {
	b.rig.t.Helper()
	b.web.Requests()
	old := must.Get(os.ReadFile(b.path(name)))
	b.write(name, strings.Replace(string(old), "<p>", fmt.Sprintf("<p>Edited at %d. ", time.Now().UnixNano()), 1))
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if b.web.Requests()["/"+name] > 0 {
			return true
		}
	}
	return false
}

// site writes that many pages of some hundred words.
func (r *rig) site(pages int) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range pages {
		r.write(page(i), pageOf(rnd, 150))
	}
}

func page(i int) string { return fmt.Sprintf("page%02d.html", i) }

// Pushed changes are fetched though one of the site's pages is longer than the crawler reads, and though its
// web server writes a nonce into each response; and every report on the long page says that it is truncated.
func TestPushToPagesWithNonces(t *testing.T) {
	r := newRig(t)
	r.site(40)
	r.write("long.html", "<title>long</title><p>"+strings.Repeat("many words ", 40_000))
	r.web.Rewrite = func(_ string, page []byte) []byte {
		return append(page, fmt.Sprintf("<script nonce=\"%x\"></script>", rand.Uint64())...)
	}
	b := listen(t, r, 41, "--max-file", "400kB")
	for i := range 40 {
		if !b.pushed(page(i), 20*time.Second) {
			t.Fatalf("an edit of %s was not fetched\n%s", page(i), b.why(r.base+page(i)))
		}
	}
	if s := b.status(); s.Truncated != 1 {
		t.Errorf("crawler status reports %d truncated pages, want 1", s.Truncated)
	}
	long := b.row("pages", "url", r.base+"long.html")
	if long["truncated"] != true || long["length"] != 400_000. || b.row("pages", "url", r.base+page(1))["truncated"] == true {
		t.Errorf("crawler pages prints for the long page: %v", long)
	}
	if why := b.why(r.base + "long.html"); !strings.Contains(why, "truncated: only its first 400000 bytes") {
		t.Errorf("crawler why does not report the page as truncated:\n%s", why)
	}
	site := func() map[string]any { return b.row("sites", "origin", strings.TrimSuffix(r.base, "/")) }
	b.rig.until("the pushed changes are judged, and the result is stored with a later page", func() bool {
		return b.pushed(page(0), 20*time.Second) && site()["judged"].(float64) >= 40
	})
	honest := fmt.Sprintf("its announcements are right in %.0f of 100 cases", 100*site()["honest"].(float64))
	if why := b.why(r.base + page(1)); !strings.Contains(why, honest) {
		t.Errorf("crawler sites prints %s, but crawler why prints:\n%s", honest, why)
	}
}

// Pages that differ at each request cost a crawl no more than a second request for each edit: the next crawl
// fetches only the edited pages.
func TestRecrawlOfUnstablePages(t *testing.T) {
	r := newRig(t)
	r.site(40)
	unstable := func(path string) bool { return strings.HasPrefix(path, "/page0") }
	r.web.Rewrite = func(path string, page []byte) []byte {
		if !unstable(path) {
			return page
		}
		return append(page, fmt.Sprintf("<script nonce=\"%x\"></script>", rand.Uint64())...)
	}
	r.startNotifier()
	c := &crawling{t: t, dir: filepath.Join(t.TempDir(), "crawl"), args: []string{"crawl", r.base}}
	crawl := func() map[string]int {
		t.Helper()
		r.web.Requests()
		c.start()
		c.finished()
		return r.web.Requests()
	}
	first := crawl()
	for i := range 40 {
		if n := first["/"+page(i)]; n != 1 && !unstable("/"+page(i)) || n > 2 || n < 1 {
			t.Errorf("%s was fetched %d times", page(i), n)
		}
	}
	r.edit(page(3))
	r.edit(page(33))
	r.until("the manifest has the edits", func() bool { return r.listed().Seq == 2 })
	again := crawl()
	maps.DeleteFunc(again, func(path string, _ int) bool { return !isFile(r.path(path)) })
	if n := again["/"+page(3)]; len(again) != 2 || n < 1 || n > 2 || again["/"+page(33)] != 1 {
		t.Errorf("run again after two edits, the crawl fetched %v\n%s", again, c.p.said())
	}
}
