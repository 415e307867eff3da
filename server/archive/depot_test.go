package archive_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/versions"
)

// A depot is a docroot with a door that serves its archive.
type depot struct {
	*sitetest.Depot
	maker *archive.Maker

	mu  sync.Mutex // guards the fields below
	now time.Time
	// before is called before a page is read.
	before func(url string)

	judges func(name string) // called before a caller's rules are evaluated
}

func newDepot(t *testing.T, change ...func(*archive.Maker)) *depot {
	t.Helper()
	d := &depot{now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	d.Depot = sitetest.NewDepot(t, d.clock)
	for i := range 20 {
		d.Write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprintf("<title>Page %d</title><p>%s", i, strings.Repeat("text ", i*50)))
	}
	d.Write("index.html", "<title>Home</title>")
	d.Write("empty.html", "")
	pages := pagesOf{d, d.Store}
	d.maker = &archive.Maker{Dir: filepath.Join(d.Dir, "archive"), Base: d.Base, Journal: d.Journal, Pages: pages, Public: d.Site.Public, Now: d.clock}
	for _, f := range change {
		f(d.maker)
	}
	d.Notifier.Content = doors.Content{Pages: pages, Archive: d.maker}
	d.Notifier.Clients = doors.Clients{Identify: func(r *http.Request) (caller.Caller, error) { return caller.Caller{Name: r.Header.Get("X-Name")}, nil },
		PublicTo: func(name, url string) bool {
			if d.judges != nil {
				d.judges(name)
			}
			return name != "shutout" || !strings.Contains(url, "/d2/")
		}}
	d.Start()
	return d
}

// pagesOf lets a test change the site while it is being packed.
type pagesOf struct {
	d *depot
	*versions.Store
}

func (p pagesOf) Page(ctx context.Context, item *protocol.Item, max int64) ([]byte, error) {
	p.d.mu.Lock()
	before := p.d.before
	p.d.mu.Unlock()
	if before != nil {
		before(item.URL)
	}
	return p.Store.Page(ctx, item, max)
}

func (d *depot) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *depot) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// run runs the maker until the test ends or stop is called.
func (d *depot) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.maker.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				d.Error(err)
			}
		})
	}
	d.Cleanup(stop)
	return stop
}

// next waits for an archive other than the given one.
func (d *depot) next(than content.Archived) content.Archived {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 20*time.Second)
	defer cancel()
	d.Must(d.maker.Wait(ctx, than))
	a, ok := d.maker.Latest()
	if !ok {
		d.Fatal("the archive is missing")
	}
	return a
}

func (d *depot) get(ref string, header ...string) (*http.Response, []byte) {
	d.Helper()
	resp, b := must.Fetch(d, "GET", d.Base+ref, "", header...)
	return resp, []byte(b)
}

// unpack returns an archive's pages by URL, and the URLs of pages without bytes. It checks everything that
// can be checked.
func (d *depot) unpack(a content.Archived, b []byte) (pages map[string]string, without []string) {
	t := d.T
	t.Helper()
	if int64(len(b)) != a.Length || protocol.Sum(b) != a.Digest {
		t.Errorf("%d bytes of %v, not %d of %v", len(b), protocol.Sum(b), a.Length, a.Digest)
	}
	z := must.Get(zip.NewReader(bytes.NewReader(b), int64(len(b))))
	files := map[string][]byte{}
	for _, f := range z.File {
		if f.Method != zip.Store {
			t.Errorf("%s is compressed", f.Name)
		}
		in, err := f.Open()
		d.Must(err)
		files[f.Name], err = io.ReadAll(in) // which checks its checksum
		d.Must(err)
	}

	var p struct {
		Profile   string
		Version   string `json:"wacz_version"`
		Resources []struct {
			Name, Path, Hash string
			Bytes            int
		}
		Parley struct {
			Cursor        protocol.Cursor
			Items, Bodies int
		}
	}
	d.Must(json.Unmarshal(files["datapackage.json"], &p))
	if p.Profile != "data-package" || p.Version != "1.1.1" || p.Parley.Cursor != a.Cursor || p.Parley.Items != a.Items || len(p.Resources) != 3 {
		t.Errorf("datapackage.json: %s", files["datapackage.json"])
	}
	for _, r := range p.Resources {
		if hash := fmt.Sprintf("sha256:%x", sha256.Sum256(files[r.Path])); r.Hash != hash || r.Bytes != len(files[r.Path]) || r.Name != filepath.Base(r.Path) {
			t.Errorf("%s has %s and %d bytes", r.Path, hash, len(files[r.Path]))
		}
	}
	var seal struct{ Path, Hash string }
	d.Must(json.Unmarshal(files["datapackage-digest.json"], &seal))
	if seal.Path != "datapackage.json" || seal.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256(files["datapackage.json"])) {
		t.Errorf("datapackage-digest.json: %+v", seal)
	}

	data := files["archive/data.warc.gz"]
	if _, err := warctest.Validate(bytes.NewReader(data)); err != nil {
		t.Error(err)
	}
	r := must.Get(bundle.NewReader(bytes.NewReader(data), bundle.Limits{}))
	defer r.Close()
	pages = map[string]string{}
	var stated []string
	for p, err := range r.Pages() {
		d.Must(err)
		stated = append(stated, p.Change.Item.URL)
		if p.Body == nil {
			without = append(without, p.Change.Item.URL)
			continue
		}
		pages[p.Change.Item.URL] = string(p.Body)
	}
	if r.Head.To != a.Cursor || len(stated) != a.Items || p.Parley.Bodies != len(pages) || r.Refused > 0 {
		t.Errorf("%d items at %v, %d bodies, %d refused; the archive: %+v", len(stated), r.Head.To, len(pages), r.Refused, p.Parley)
	}

	var listed []string
	for line := range strings.Lines(string(files["pages/pages.jsonl"])) {
		var p struct{ URL, TS string }
		d.Must(json.Unmarshal([]byte(line), &p))
		if p.URL == "" {
			continue // the first one
		}
		if _, err := time.Parse(time.RFC3339, p.TS); err != nil {
			t.Error(err)
		}
		listed = append(listed, p.URL)
	}
	if !slices.Equal(listed, stated) || !slices.IsSortedFunc(stated, protocol.Compare) {
		t.Errorf("pages.jsonl lists %v, the data %v", listed, stated)
	}

	// Each page is found by the index alone.
	at := t.TempDir()
	d.Must(os.WriteFile(filepath.Join(at, "data.warc.gz"), data, 0o644))
	in := must.Get(coding.NewReader(bytes.NewReader(files["indexes/index.cdx.gz"])))
	cdxj := must.Get(io.ReadAll(in))
	if !slices.IsSorted(slices.Collect(strings.Lines(string(cdxj)))) {
		t.Error("the index is not sorted")
	}
	d.Must(os.WriteFile(filepath.Join(at, "data.warc.gz.cdxj"), cdxj, 0o644))
	for url, text := range pages {
		found, err := (&warc.Index{Dir: at}).Lookup(url)
		if err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", url, found, err)
			continue
		}
		rec := must.Get(warc.Open(at, found[0].Place))
		m := must.Get(warc.ReadMessage(rec.Body))
		body, err := io.ReadAll(m.Body)
		if err != nil || string(body) != text || rec.Type() != warc.Response || rec.URL() != url || m.Status != 200 {
			t.Errorf("%s at %v: %s of %s, %d, %v", url, found[0].Place, rec.Type(), rec.URL(), m.Status, err)
		}
		rec.Close()
	}
	return pages, without
}
