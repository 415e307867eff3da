package server_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
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
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))
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
	must.Write(d, d.path(place), content)
}

// age makes a file look old enough for its stamp to be trusted.
func (d *docroot) age(places ...string) {
	d.Helper()
	for _, p := range places {
		d.must(os.Chtimes(d.path(p), time.Time{}, time.Now().Add(-time.Hour)))
	}
}

func (d *docroot) look(scopes ...inventory.Scope) []inventory.Offer {
	d.Helper()
	return sitetest.Look(d.T, d.site, scopes...)
}

func (d *docroot) offer(url string) inventory.Offer {
	d.Helper()
	return sitetest.Offered(d.T, d.look(), base+url)
}
