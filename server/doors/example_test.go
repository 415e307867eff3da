package doors_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// The doors of a site in the mux that serves its pages. A long-running program calls Run of the Publisher,
// and Close of the Notifier at its end.
func ExampleNotifier() {
	dir, docroot := exampleSite()
	defer os.RemoveAll(dir)
	site := &server.Site{Docroot: docroot, Base: "https://www.example.org/"}
	journal, err := server.OpenJournal(context.Background(), filepath.Join(dir, "state"), server.JournalOptions{Base: site.Base})
	if err != nil {
		log.Fatal(err)
	}
	defer journal.Close()
	snapshot := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(site.Base), Public: site.Public}
	publisher := &server.Publisher{Inventory: site, Journal: journal, Snapshot: snapshot}
	notifier := &doors.Notifier{Log: journal, Snapshot: snapshot, Base: site.Base, Public: site.Public, Ready: publisher.Ready}
	mux := existingMux(docroot)
	notifier.Register(mux)
	fmt.Println(publisher.Turn(context.Background()))
	fmt.Println(knock(mux))
	// Output:
	// new 1 changed 0 moved 0 gone 0 touched only 0 <nil>
	// 200 OK
}

// existingMux serves the pages of a site.
func existingMux(docroot string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(docroot)))
	return mux
}

// exampleSite makes a docroot with one page, in a directory of its own.
func exampleSite() (dir, docroot string) {
	dir, err := os.MkdirTemp("", "parley-example-")
	if err != nil {
		log.Fatal(err)
	}
	docroot = filepath.Join(dir, "www")
	if err := os.Mkdir(docroot, 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(docroot, "index.html"), []byte("<title>Hello</title>"), 0o644); err != nil {
		log.Fatal(err)
	}
	return dir, docroot
}

// knock fetches the manifest.
func knock(h http.Handler) string {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/robots.rdf", nil))
	return rec.Result().Status
}
