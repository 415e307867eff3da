package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server"
)

// doctor runs rdfgen doctor on a site that cron publishes, and returns its checks.
func (d *desk) doctor(code int, base string, flags ...string) []diagnosis {
	d.t.Helper()
	args := append([]string{"doctor", "--docroot", d.root, "--base", base, "--json", "--hurry", "10ms"}, append(d.published(), flags...)...)
	out, _ := ran(d.t, rdfgen, code, args...)
	var found struct{ Checks []diagnosis }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	return found.Checks
}

func says(list []diagnosis, check, state, text string) bool {
	return slices.ContainsFunc(list, func(d diagnosis) bool {
		return d.Check == check && d.State == state && strings.Contains(d.Says, text)
	})
}

// A site without a notifier is well while cron runs, and doctor changes nothing.
func TestDoctorOfASiteUnderCron(t *testing.T) {
	d := newDesk(t, "index.html", "a.html")
	files := http.FileServer(http.Dir(d.root))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.rdf" {
			w.Header().Set("Content-Type", "application/rdf+xml")
		}
		files.ServeHTTP(w, r)
	}))
	defer web.Close()
	base := web.URL + "/"
	if list := d.doctor(1, base); !says(list, "state", fault, "there is no state") || !says(list, "robots.rdf", fault, "404 Not Found") {
		t.Errorf("before the first scan: %+v", list)
	}
	state := filepath.Join(d.dir, "state")
	if _, err := os.Stat(state); err == nil {
		t.Error("doctor has created a state")
	}

	publish := func() { d.t.Helper(); d.run(0, append(d.published(), "--base", base)...) }
	publish()
	if list := d.doctor(0, base); !says(list, "notifier", note, "none is running") || !says(list, "robots.rdf", fine, "is current") || !says(list, "pages", fine, "2 of 2 pages") {
		t.Errorf("under cron: %+v", list)
	}
	was := must.Get(os.Stat(state))
	long := time.Now().Add(-2 * time.Hour)
	must.OK(t, os.Chtimes(state, long, long))
	if list := d.doctor(1, base); !says(list, "scans", fault, "the site was scanned 2h") {
		t.Errorf("without cron: %+v", list)
	}
	if st, err := os.Stat(state); err != nil || st.ModTime().After(long.Add(time.Second)) || st.Size() != was.Size() {
		t.Errorf("doctor has written to the state: %v, %v", st, err)
	}
	publish() // which finds no change
	d.doctor(0, base)

	if list := d.doctor(1, base, "--docroot", filepath.Join(d.dir, "empty")); !says(list, "docroot", fault, "no such file") {
		t.Errorf("another docroot: %+v", list)
	}
	must.OK(t, os.Remove(filepath.Join(d.root, "robots.rdf")))
	if list := d.doctor(0, base, "--out", ""); !says(list, "robots.rdf", note, "none is published") {
		t.Errorf("a site with a sitemap only: %+v", list)
	}
	if list := d.doctor(1, base); !says(list, "robots.rdf", fault, "404 Not Found") {
		t.Errorf("without a manifest: %+v", list)
	}
}

// Right after a start, a web server or a notifier may not answer yet: only faults that last are reported.
func TestDoctorLooksTwice(t *testing.T) {
	d := newDesk(t, "index.html")
	var starting atomic.Bool
	files := http.FileServer(http.Dir(d.root))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.rdf" {
			if starting.Swap(false) {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/rdf+xml")
		}
		files.ServeHTTP(w, r)
	}))
	defer web.Close()
	base := web.URL + "/"
	d.run(0, append(d.published(), "--base", base)...)
	starting.Store(true)
	if list := d.doctor(0, base); !says(list, "robots.rdf", fine, "is current") || says(list, "robots.rdf", fault, "") {
		t.Errorf("%+v", list)
	}
	if starting.Load() {
		t.Error("doctor has not fetched robots.rdf")
	}
}

// Typing errors in the file that notifier and rdfgen read are found by doctor too.
func TestDoctorReadsTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.conf")
	must.Write(t, file, "base http://127.0.0.1:1/\nadmin 127.0.0.1:8640\ndry-run\nsitmap x\n")
	var out, errs strings.Builder
	if code := command.Main(t.Context(), rdfgen, []string{"doctor", "--config", file}, nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), `parley.conf:4: unknown option "sitmap"`) {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

// A process that has the state open and does not answer, such as a stopped one, is a fault, and is not waited for.
func TestDoctorOfAProcessThatHangs(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "index.html")
	const base = "http://127.0.0.1:1/"
	d.run(0, append(d.published(), "--base", base)...)
	state := filepath.Join(d.dir, "state")
	journal := must.Get(server.OpenJournal(t.Context(), state, server.JournalOptions{Base: base}))
	defer journal.Close()
	ctx, stop := context.WithCancel(t.Context())
	var hung sync.WaitGroup
	defer hung.Wait()
	defer stop()
	hung.Go(func() {
		err := holder.Serve(ctx, state, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Error(err)
		}
	})
	if list := d.doctor(1, base); !says(list, "state", fault, "does not answer") || !says(list, "docroot", fine, "1 pages") {
		t.Errorf("%+v", list)
	}
}
