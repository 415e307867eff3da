package server_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
)

// A depot is a docroot with doors that deliver page bodies.
type depot struct {
	*sitetest.Depot
	arrive func() // waits until the doors have what the journal has
}

// Publish publishes what was written.
func (d *depot) Publish() protocol.Cursor {
	at := d.Depot.Publish()
	d.arrive()
	return at
}

func newDepot(t *testing.T, change ...func(*doors.Notifier)) *depot {
	t.Helper()
	d := &depot{Depot: sitetest.NewDepot(t, nil)}
	d.Write("a.html", "<p>a")
	d.Notifier.Content = doors.Content{Pages: d.Store, Item: func(url string) (protocol.Item, bool, error) {
		e, ok, err := d.Journal.Get(url)
		return e.Item, ok, err
	}}
	d.Notifier.Log, d.arrive = abroad(t, d.Journal)
	for _, f := range change {
		f(d.Notifier)
	}
	d.Start()
	d.arrive()
	return d
}

// ask sends a request to a door.
func (d *depot) ask(method, ref, mediaType, body string) (*http.Response, []byte) {
	d.Helper()
	var header []string
	if mediaType != "" {
		header = []string{"Content-Type", mediaType}
	}
	resp, b := must.Fetch(d, method, d.Base+ref, body, header...)
	return resp, []byte(b)
}

// unpack reads a bundle, which must be a valid archive too.
func (d *depot) unpack(b []byte) (bundle.Head, []bundle.Page) {
	d.Helper()
	if _, err := warctest.Validate(bytes.NewReader(b)); err != nil {
		d.Error(err)
	}
	r := must.Get(bundle.NewReader(bytes.NewReader(b), bundle.Limits{}))
	defer r.Close()
	var list []bundle.Page
	for p, err := range r.Pages() {
		d.Must(err)
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
	return must.Get(protocol.ParseMessage(bytes.TrimSpace(b)))
}
