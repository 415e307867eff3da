package server_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

// A depot is a docroot with doors that deliver page bodies.
type depot struct {
	*testing.T
	root      string
	journal   *server.Journal
	publisher *server.Publisher
	notifier  *doors.Notifier
	web       *httptest.Server
	base      string
}

func newDepot(t *testing.T, change ...func(*doors.Notifier)) *depot {
	t.Helper()
	dir := t.TempDir()
	d := &depot{T: t, root: filepath.Join(dir, "www")}
	d.web = httptest.NewUnstartedServer(nil)
	d.base = "http://" + d.web.Listener.Addr().String() + "/"
	d.write("a.html", "<p>a")
	site := &server.Site{Docroot: d.root, Base: d.base}
	var err error
	d.journal, err = server.OpenJournal(t.Context(), filepath.Join(dir, "state"), server.JournalOptions{Base: d.base})
	d.must(err)
	snapshot := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(d.base), Public: site.Public}
	d.publisher = &server.Publisher{Inventory: site, Journal: d.journal, Snapshot: snapshot}
	d.notifier = &doors.Notifier{Log: d.journal, Snapshot: snapshot, Base: d.base, Public: site.Public,
		Content: doors.Content{Pages: &versions.Store{Journal: d.journal, Open: site.OpenPage, Public: site.Public},
			Item: func(url string) (protocol.Item, bool, error) {
				e, ok, err := d.journal.Get(url)
				return e.Item, ok, err
			}}}
	for _, f := range change {
		f(d.notifier)
	}
	d.web.Config.Handler = d.notifier
	d.web.Start()
	t.Cleanup(func() {
		d.web.CloseClientConnections()
		d.must(d.notifier.Close(context.Background()))
		d.web.Close()
		d.must(d.journal.Close())
	})
	d.publish()
	return d
}

func (d *depot) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *depot) write(name, text string) {
	d.Helper()
	p := filepath.Join(d.root, name)
	d.must(os.MkdirAll(filepath.Dir(p), 0o755))
	d.must(os.WriteFile(p+".new", []byte(text), 0o644))
	d.must(os.Rename(p+".new", p))
}

func (d *depot) publish() protocol.Cursor {
	d.Helper()
	_, err := d.publisher.AcceptDeletions(d.Context())
	d.must(err)
	return d.journal.Head()
}

// pages returns the site's pages, by URL.
func (d *depot) pages() map[string]string {
	d.Helper()
	pages := map[string]string{}
	d.must(filepath.WalkDir(d.root, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, ".html") {
			return err
		}
		b, err := os.ReadFile(p)
		pages[d.base+filepath.ToSlash(p[len(d.root)+1:])] = string(b)
		return err
	}))
	return pages
}

// ask sends a request to a door.
func (d *depot) ask(method, ref, mediaType, body string) (*http.Response, []byte) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.base+ref, strings.NewReader(body))
	d.must(err)
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := http.DefaultClient.Do(req)
	d.must(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	d.must(err)
	return resp, b
}

// unpack reads a bundle, which must be a valid archive too.
func (d *depot) unpack(b []byte) (bundle.Head, []bundle.Page) {
	d.Helper()
	if _, err := warctest.Validate(bytes.NewReader(b)); err != nil {
		d.Error(err)
	}
	r, err := bundle.NewReader(bytes.NewReader(b), bundle.Limits{})
	d.must(err)
	defer r.Close()
	var list []bundle.Page
	for p, err := range r.Pages() {
		d.must(err)
		list = append(list, p)
	}
	if r.Refused > 0 {
		d.Errorf("%d pages with other digests", r.Refused)
	}
	return r.Head, list
}

func (d *depot) batch(ref string) (bundle.Head, []bundle.Page) {
	d.Helper()
	resp, b := d.ask("GET", ref, "", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != bundle.MediaType {
		d.Fatalf("%s: %s: %.300s", ref, resp.Status, b)
	}
	head, list := d.unpack(b)
	if resp.Header.Get("Parley-Cursor") != head.To.String() {
		d.Errorf("Parley-Cursor %s of a bundle to %v", resp.Header.Get("Parley-Cursor"), head.To)
	}
	return head, list
}

// A pageMirror is kept up to date by bundles alone.
type pageMirror map[string]string

func (m pageMirror) apply(t *testing.T, list []bundle.Page) {
	t.Helper()
	seen := map[string]bool{}
	for _, p := range list {
		url := p.Change.Item.URL
		switch {
		case seen[url]:
			t.Errorf("%s is there twice", url)
		case p.Change.Op == protocol.Delete:
			delete(m, url)
		case p.Body == nil:
			t.Errorf("%s came without its page: %+v", url, p.Change)
		default:
			m[url] = string(p.Body)
		}
		seen[url] = true
	}
}

func (d *depot) message(ref string) protocol.Message {
	d.Helper()
	resp, b := d.ask("GET", ref, "", "")
	if resp.StatusCode != 200 {
		d.Fatalf("%s: %s: %.300s", ref, resp.Status, b)
	}
	m, err := protocol.ParseMessage(bytes.TrimSpace(b))
	d.must(err)
	return m
}
