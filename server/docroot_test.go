package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// A docroot is a directory that a test writes to.
type docroot struct {
	*testing.T
	dir  string
	site *server.Site
}

func newDocroot(t *testing.T, files ...string) *docroot {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &docroot{T: t, dir: filepath.Join(dir, "root")}
	d.site = &server.Site{Docroot: d.dir, Base: base}
	d.must(os.Mkdir(d.dir, 0o755))
	for _, f := range files {
		d.write(f, "content of "+f)
	}
	return d
}

func (d *docroot) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *docroot) path(place string) string { return filepath.Join(d.dir, filepath.FromSlash(place)) }

func (d *docroot) write(place, content string) {
	d.Helper()
	d.must(os.MkdirAll(filepath.Dir(d.path(place)), 0o755))
	d.must(os.WriteFile(d.path(place), []byte(content), 0o644))
}

// age makes a file look old enough for its stamp to be trusted.
func (d *docroot) age(places ...string) {
	d.Helper()
	for _, p := range places {
		d.must(os.Chtimes(d.path(p), time.Time{}, time.Now().Add(-time.Hour)))
	}
}

// look returns everything that a scan yields, and checks the order.
func (d *docroot) look(scopes ...inventory.Scope) (list []inventory.Offer) {
	d.Helper()
	last := ""
	for o, err := range d.site.Scan(d.Context(), scopes) {
		if err != nil {
			d.Fatalf("look: %v", err)
		}
		if o.URL != "" {
			if last != "" && protocol.Compare(last, o.URL) >= 0 {
				d.Fatalf("scan: %q after %q", o.URL, last)
			}
			if c, err := protocol.CanonicalURL("", o.URL); err != nil || c != o.URL {
				d.Fatalf("scan: %q is not canonical: %q, %v", o.URL, c, err)
			}
			last = o.URL
		}
		if o.LeftOut == "" && !d.site.Public(o.URL) {
			d.Errorf("scan: %q is offered, but not public", o.URL)
		}
		list = append(list, o)
	}
	return list
}

// leftOut returns the reasons by place.
func leftOut(list []inventory.Offer) map[string]string {
	m := make(map[string]string)
	for _, o := range list {
		if o.LeftOut != "" {
			m[o.Place] = o.LeftOut
		}
	}
	return m
}

func (d *docroot) offer(url string) inventory.Offer {
	d.Helper()
	for _, o := range d.look() {
		if o.URL == base+url {
			return o
		}
	}
	d.Fatalf("%s is not offered", url)
	return inventory.Offer{}
}
