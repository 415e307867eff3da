package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func (d *desk) path(name string) string { return filepath.Join(d.dir, name) }

func (d *desk) has(name, want string) {
	d.t.Helper()
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		d.t.Error(err)
	} else if !strings.Contains(string(b), want) {
		d.t.Errorf("%s lacks %q:\n%s", name, want, b)
	}
}

// Each output works with its own option alone.
func TestEachOutputWorksAlone(t *testing.T) {
	for _, c := range []struct{ option, file, want string }{
		{"--out", "public/robots.rdf", "<p:epoch>"},
		{"--sitemap", "public/sitemap.xml", "<loc>https://example.org/a.html</loc>"},
		{"--rss", "public/news.rss", "<link>https://example.org/a.html</link>"},
		{"--atom", "public/feeds/news.atom", `rel="self" type="application/atom+xml" href="https://example.org/feeds/news.atom"`},
		{"--json-feed", "public/news.json", `"https://example.org/a.html"`},
		{"--nginx-include", "gone.conf", "#"},
	} {
		d := newDesk(t, "a.html")
		must.OK(t, os.MkdirAll(filepath.Dir(d.path(c.file)), 0o755))
		if out, said := d.run(0, "--state", d.path("state"), c.option, d.path(c.file)); out != "" || said != "" {
			t.Errorf("%s: stdout %q, stderr %q", c.option, out, said)
		}
		d.has(c.file, c.want)
		t.Setenv("STATE_DIRECTORY", d.path("lib")) // and where no state is given
		if out, said := d.run(0, c.option, d.path(c.file)); out != "" || said != "" {
			t.Errorf("%s without --state: stdout %q, stderr %q", c.option, out, said)
		}
	}
	d := newDesk(t, "a.html")
	t.Setenv("STATE_DIRECTORY", d.path("lib"))
	d.run(0, "--write-robots", "--sitemap", d.path("public/sitemap.xml"), "--precompress")
	d.has("public/robots.txt", "Sitemap: https://example.org/sitemap.xml\n")
	for _, sibling := range []string{"public/sitemap.xml.gz", "public/sitemap.xml.zst"} {
		if _, err := os.Stat(d.path(sibling)); err != nil {
			t.Error(err)
		}
	}
}

// A big site has its manifest in parts, whose directory is not published; --one-file brings the one file back.
func TestManifestInParts(t *testing.T) {
	d := newDesk(t, "a.html", "b.html", "c.html")
	out := d.path("public/robots.rdf")
	flags := []string{"--state", d.path("state"), "--out", out, "--include", "**", "--precompress"}
	d.run(0, append(flags, "--parts", "3")...)
	d.has("public/robots.rdf", "<p:whole ")
	d.write("a.html", "the page changed")
	d.run(0, append(flags, "--parts", "3")...)
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head, err := protocol.ReadManifestHead(f, protocol.ManifestOptions{URL: "https://example.org/robots.rdf"})
	if err != nil || head.Whole == nil || head.Whole.Items != 3 || head.Whole.Cursor.Seq != 1 {
		t.Fatalf("%+v, %v", head.Whole, err)
	}
	n := 0
	for rec, err := range head.Whole.Snapshot(func(p *protocol.Part) ([]byte, error) {
		return os.ReadFile(d.path("public/" + strings.TrimPrefix(p.URL, "https://example.org/")))
	}, protocol.ManifestOptions{}) {
		if n++; err != nil || !strings.HasSuffix(rec.Item.URL, ".html") {
			t.Error(rec.Item.URL, err)
		}
	}
	if n != 3 {
		t.Errorf("%d pages", n)
	}
	d.run(0, append(flags, "--one-file")...)
	d.has("public/robots.rdf", "<p:complete>true")
	d.has("public/robots.rdf.gz", "")
	if _, err := os.Stat(out + ".parts"); !os.IsNotExist(err) {
		t.Errorf("the parts are still there: %v", err)
	}
	if _, said := d.run(2, append(flags, "--one-file", "--parts", "3")...); !strings.Contains(said, "--one-file and --parts 3") {
		t.Errorf("stderr: %s", said)
	}
}

// Files that are not pages (the outputs themselves, the key) are not published, whatever is included.
func TestOutputsAreNotPublishedAsPages(t *testing.T) {
	var asked atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer engine.Close()
	d := newDesk(t, "a.html")
	flags := []string{"--state", d.path("state"), "--out", d.path("public/robots.rdf"), "--sitemap", d.path("public/sitemap.xml"),
		"--atom", d.path("public/news.atom"), "--precompress", "--indexnow", engine.URL, "--indexnow-key", "0123456789abcdef", "--include", "**"}
	d.run(0, flags...)
	d.write("a.html", "the page changed")
	d.run(0, flags...)
	if asked.Load() != 1 {
		t.Errorf("the engine got %d requests", asked.Load())
	}
	d.has("public/0123456789abcdef.txt", "0123456789abcdef")
	d.run(0, flags...)
	b, err := os.ReadFile(d.path("public/sitemap.xml"))
	if err != nil || strings.Count(string(b), "<loc>") != 1 {
		t.Errorf("%v: the sitemap lists more than the page:\n%s", err, b)
	}
}

// A lost state is rebuilt from the manifest; changes since then are still announced.
func TestEnginesAreNotifiedAfterLostState(t *testing.T) {
	var asked atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer engine.Close()
	d := newDesk(t, "a.html", "b.html")
	flags := append(d.published(), "--indexnow", engine.URL)
	d.run(0, flags...)
	d.write("a.html", "the page changed")
	must.OK(t, os.Remove(d.path("state")))
	d.run(0, flags...)
	if asked.Load() != 1 {
		t.Errorf("the engine got %d requests", asked.Load())
	}
}

// Under cron, a webhook and a command get what each run found, and one that failed gets it from a later run.
func TestHooksUnderCron(t *testing.T) {
	d := newDesk(t, "a.html", "b.html")
	d.write("../secret", "0123456789abcdef\n")
	var got []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		m, err := protocol.ParseMessage(b)
		if err != nil || !strings.HasPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256=") {
			t.Errorf("%v: webhook got %s with the header %v", err, b, r.Header)
		}
		for _, c := range m.Changes {
			got = append(got, string(c.Op)+" "+c.Item.URL)
		}
	}))
	defer hook.Close()
	flags := append(d.published(), "--webhook", hook.URL, "--webhook-secret", d.path("secret"), "--on-change", machine.Tool(t, "tee")+" -a "+d.path("changes"), "--verbose")
	d.run(0, flags...)
	d.write("a.html", "the page changed")
	d.write("c.html", "a new page")
	if _, said := d.run(0, flags...); !strings.Contains(said, "Commands and webhooks: 4 changes delivered") {
		t.Errorf("stderr %q", said)
	}
	if want := "update https://example.org/a.html, create https://example.org/c.html"; strings.Join(got, ", ") != want {
		t.Errorf("webhook got %q, want %q", got, want)
	}
	d.has("changes", `"op":"update","url":"https://example.org/a.html"`)

	// A hook that is new when the site has a journal gets the changes that this run finds.
	missing := append(d.published(), "--on-change", d.path("no such program")) // a person is needed, though the site is published
	d.write("b.html", "changed, too")
	if _, said := d.run(1, missing...); !strings.Contains(said, "--on-change "+d.path("no such program")+": no program "+d.path("no")+", or it is not executable") {
		t.Errorf("stderr %q", said)
	}
	got = nil
	d.run(0, flags...)
	if strings.Join(got, ", ") != "update https://example.org/b.html" {
		t.Errorf("webhook got %q of the change that another run found", got)
	}
}

// Several rdfgen processes started at once on one state all succeed.
func TestConcurrentRunsSucceed(t *testing.T) {
	d := newDesk(t, "a.html", "b.html")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				d.run(0, d.published()...)
			}
		})
	}
	all.Wait()
}

func TestInvalidOutputOptions(t *testing.T) {
	d := newDesk(t, "a.html")
	in := func(name string) string { return d.path("public/" + name) }
	for _, flags := range [][]string{
		{"--sitemap", in("x.xml"), "--rss", in("x.xml")},
		{"--rss", in("x.rss"), "--atom", d.path("other/x.atom")},
		{"--nginx-include", in("gone.conf")},
		{"--nginx-reload", "nginx -s reload"},
		{"--write-robots", "--base", "https://example.org/docs/"},
		{"--feed-entries", "0", "--rss", in("x.rss")},
		{"--indexnow-significance", "2"},
		{"--on-change", " "},
		{"--webhook", "example.org/purge"},
		{"--webhook-secret", d.path("secret")},
		{"--webhook", "https://example.org/purge", "--webhook-secret", in("a.html")},
		{"--urls", in("list")},
		{"--mask", "(", "--out", in("robots.rdf")},
		{"--reachable", "--docroot", "", "--urls", in("list")},
		{"--heal", "--docroot", "", "--urls", in("list")},
		{"--docroot", ""},
		{"--state", in("state")},
	} {
		if _, said := d.run(command.Misuse, flags...); !strings.Contains(said, "rdfgen: ") {
			t.Errorf("%q: stderr %q", flags, said)
		}
	}
}

// Two sites in one file that would overwrite each other's outputs are refused before anything is written; two
// that would not are both published.
func TestSitesMustNotShareOutputs(t *testing.T) {
	d := newDesk(t, "a.html")
	t.Setenv("STATE_DIRECTORY", d.path("lib"))
	config := func(text string) string {
		name := d.path("parley.conf")
		must.Write(t, name, text)
		return name
	}
	run := func(code int, file string) string {
		t.Helper()
		_, errs := ran(t, rdfgen, code, "--config", file)
		return errs
	}
	both := "docroot " + d.root + "\n[one]\nbase https://one.example/\nsitemap " + d.path("one.xml") + "\n[two]\nbase https://two.example/\nsitemap "
	if said := run(command.Misuse, config(both+d.path("one.xml"))); !strings.Contains(said, "[one] and [two] both have") {
		t.Errorf("stderr %q", said)
	}
	if _, err := os.Stat(d.path("one.xml")); err == nil {
		t.Error("a site was published although the outputs conflict")
	}
	run(0, config(both+d.path("two.xml")))
	d.has("one.xml", "https://one.example/a.html")
	d.has("two.xml", "https://two.example/a.html")
}

// An unknown search engine does not stop the site from being published.
func TestUnknownEngineDoesNotStopPublishing(t *testing.T) {
	d := newDesk(t, "a.html")
	flags := append(d.published(), "--indexnow", "altavista")
	for range 2 { // the first manifest, and later ones
		d.write("a.html", "the page as of "+time.Now().String())
		if _, said := d.run(1, flags...); !strings.Contains(said, "altavista") {
			t.Errorf("stderr %q", said)
		}
		b := must.Get(os.ReadFile(d.path("public/a.html")))
		d.has("public/robots.rdf", protocol.Sum(b).String())
	}
}

// Two outputs with one file are refused with the line of one, and the name of the other.
func TestTwoOutputsHaveOneFile(t *testing.T) {
	dir := t.TempDir()
	file, config := filepath.Join(dir, "a.xml"), filepath.Join(dir, "conf")
	must.Write(t, config, "base https://www.example.org/\ndocroot "+dir+"\nrss "+file+"\nsitemap "+file+"\n")
	if _, said := ran(t, rdfgen, 2, "--config", config); !strings.Contains(said, config+":3: rss "+file+" is the file of --sitemap, too") {
		t.Error(said)
	}
}
