package sitetest

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

// A Depot is a docroot with a Publisher and a Notifier that is its own web server. A test may change them before Start.
type Depot struct {
	*testing.T
	Dir, Root, Base string // Root is the docroot, in Dir
	Site            *server.Site
	Journal         *server.Journal
	Store           *versions.Store
	Publisher       *server.Publisher
	Notifier        *doors.Notifier

	web *httptest.Server
}

// NewDepot makes a Depot without pages. now is its journal's clock; nil means the time.
func NewDepot(t *testing.T, now func() time.Time) *Depot {
	t.Helper()
	d := &Depot{T: t, Dir: t.TempDir(), web: httptest.NewUnstartedServer(nil)}
	d.Root = filepath.Join(d.Dir, "www")
	d.Base = "http://" + d.web.Listener.Addr().String() + "/"
	d.Site = &server.Site{Docroot: d.Root, Base: d.Base}
	var err error
	d.Journal, err = server.OpenJournal(t.Context(), filepath.Join(d.Dir, "state"), server.JournalOptions{Base: d.Base, Now: now})
	d.Must(err)
	d.Store = &versions.Store{Journal: d.Journal, Open: d.Site.OpenPage, Public: d.Site.Public}
	snapshot := &manifest.Snapshot{Path: filepath.Join(d.Dir, "robots.rdf"), Manifest: doors.Describe(d.Base), Public: d.Site.Public}
	d.Publisher = &server.Publisher{Inventory: d.Site, Journal: d.Journal, Snapshot: snapshot}
	d.Notifier = &doors.Notifier{Log: d.Journal, Snapshot: snapshot, Base: d.Base, Public: d.Site.Public}
	return d
}

// Start serves the Notifier until the test ends, and publishes the pages.
func (d *Depot) Start() {
	d.Helper()
	d.web.Config.Handler = d.Notifier
	d.web.Start()
	d.Cleanup(func() {
		d.web.CloseClientConnections()
		d.Must(d.Notifier.Close(context.Background()))
		d.web.Close()
		d.Must(d.Journal.Close())
	})
	d.Publish()
}

// Must fails the test if there is an error.
func (d *Depot) Must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// Write writes a file of the docroot, by replacing it.
func (d *Depot) Write(name, text string) {
	d.Helper()
	p := filepath.Join(d.Root, name)
	d.Must(os.MkdirAll(filepath.Dir(p), 0o755))
	d.Must(os.WriteFile(p+".new", []byte(text), 0o644))
	d.Must(os.Rename(p+".new", p))
}

// Publish publishes the docroot, deletions included, and returns the journal's head.
func (d *Depot) Publish() protocol.Cursor {
	d.Helper()
	_, err := d.Publisher.AcceptDeletions(d.Context())
	d.Must(err)
	return d.Journal.Head()
}

// Pages returns the HTML files of the docroot, by URL.
func (d *Depot) Pages() map[string]string {
	d.Helper()
	pages := map[string]string{}
	d.Must(filepath.WalkDir(d.Root, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, ".html") {
			return err
		}
		b, err := os.ReadFile(p)
		pages[d.Base+strings.TrimSuffix(filepath.ToSlash(p[len(d.Root)+1:]), "index.html")] = string(b)
		return err
	}))
	return pages
}
