package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// If a site does not run agent programs, the error says so, once; the same if a program
// was to select bundles or archives. There is no request after it.
func TestProgramRefused(t *testing.T) {
	program := protocol.Filter{Agent: protocol.Sum([]byte("program"))}
	for name, c := range map[string]struct {
		src   client.Source
		fault sitetest.Fault // of the doors, which run no programs by themselves
		says  string
	}{
		"not run, by stream":  {src: client.Source{}, says: "refuses the program " + program.Agent.String()},
		"not run, by changes": {src: client.Source{NoStream: true}, says: "this site runs no programs"},
		"of nobody":           {src: client.Source{}, fault: refuses(http.StatusUnauthorized), says: "401"},
		"of somebody":         {src: client.Source{NoStream: true, As: protocol.AsPage}, fault: refuses(http.StatusForbidden), says: "403"},
		"chosen":              {src: client.Source{Choose: func(*protocol.Discovery, protocol.Cursor) protocol.Form { return protocol.AsBatch }}, says: "refuses the program"},
		"bundles":             {src: client.Source{As: protocol.AsBatch}, says: "the form batch for changes that a program selects; it offers meta, delta, page"},
		"archives":            {src: client.Source{As: protocol.AsSite}, says: "the form site for changes that a program selects; it offers meta, delta, page"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWholeSite(t, 3)
			w.Archive()
			w.Break("/.well-known/parley", saysPrograms)
			if c.fault != nil {
				w.Break("/parley/stream", c.fault)
				w.Break("/parley/changes", c.fault)
			}
			c.src.Base, c.src.Filter = w.Base, program
			var errs []error
			for _, err := range client.Follow(t.Context(), &c.src, protocol.Cursor{}) {
				if err != nil {
					errs = append(errs, err)
				}
			}
			var offer *client.OfferError
			if len(errs) != 1 || !errors.As(errs[0], &offer) || !strings.Contains(errs[0].Error(), c.says) {
				t.Errorf("errors %v", errs)
			}
		})
	}
}

// saysPrograms is a site that declares that it runs programs.
func saysPrograms(rw http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
	rec := httptest.NewRecorder()
	own(rec, r)
	var d protocol.Discovery
	if err := json.Unmarshal(rec.Body.Bytes(), &d); err != nil {
		panic(err)
	}
	d.Filters = append(d.Filters, "agent")
	rw.Header().Set("Content-Type", "application/json")
	json.NewEncoder(rw).Encode(d)
}

// refuses is a site that refuses something and states the reason itself.
func refuses(status int) sitetest.Fault {
	return func(rw http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader(status)
		fmt.Fprintf(rw, `{"status":%d,"title":"no"}`, status)
	}
}

// A refusal from something in front of the site, or for a reason other than the program,
// may be temporary: following continues at another door.
func TestProgramRefusedByIntermediary(t *testing.T) {
	page := func(status int) sitetest.Fault {
		return func(rw http.ResponseWriter, r *http.Request, _ http.HandlerFunc) {
			rw.Header().Set("Content-Type", "text/html")
			rw.WriteHeader(status)
			io.WriteString(rw, "<title>Access denied</title>")
		}
	}
	for name, fault := range map[string]sitetest.Fault{
		"401, a page": page(http.StatusUnauthorized),
		"403, a page": page(http.StatusForbidden),
		"403, empty":  sitetest.Status(http.StatusForbidden, 0),
		"422, a page": page(http.StatusUnprocessableEntity),
		"413":         refuses(http.StatusRequestEntityTooLarge),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWholeSite(t, 3)
			w.Break("/.well-known/parley", saysPrograms)
			w.Break("/parley/stream", fault)
			w.Break("/parley/changes", fault)
			src := &client.Source{Base: w.Base, Filter: protocol.Filter{Agent: protocol.Sum([]byte("program"))}, Poll: time.Second}
			var doors []client.Door
			told := false
			for s, err := range client.Follow(t.Context(), src, protocol.Cursor{}) {
				var offer *client.OfferError
				var door *client.DoorError
				var status *client.StatusError
				switch {
				case errors.As(err, &offer):
					t.Fatal(err)
				case err != nil:
					if !errors.As(err, &door) || !errors.As(err, &status) {
						t.Fatal(err)
					}
					doors = append(doors, door.Door)
					if len(doors) == 2 {
						w.Write("index.html", "changed meanwhile")
						w.Publish()
					}
				case len(doors) == 2 && len(s.Changes) > 0:
					told = true
				}
				if told {
					break
				}
			}
			if !told || fmt.Sprint(doors) != "[stream changes]" {
				t.Errorf("received %v, errors at %v", told, doors)
			}
		})
	}
}

// What the site cannot make out of a filter does not pass by asking again.
func TestFilterRefused(t *testing.T) {
	w := newWholeSite(t, 3)
	w.Break("/parley/stream", func(rw http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader(http.StatusBadRequest)
		io.WriteString(rw, `{"status":400,"title":"no","parameter":"prefix"}`)
	})
	n := 0
	for _, err := range client.Follow(t.Context(), &client.Source{Base: w.Base, Filter: protocol.Filter{Prefixes: []string{"/d1/"}}}, protocol.Cursor{}) {
		if err == nil {
			continue
		}
		var offer *client.OfferError
		if n++; !errors.As(err, &offer) || !strings.Contains(err.Error(), `refuses the filter prefix=/d1/: `+w.Base+`parley/stream`) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

// A filter applies to the snapshot, and to the changes after it.
func TestFilter(t *testing.T) {
	for _, pulled := range []bool{false, true} {
		w := newWholeSite(t, 30)
		m := newMirror()
		m.follow(t, &client.Source{Base: w.Base, As: protocol.AsPage, Held: m.held, NoStream: pulled, Filter: protocol.Filter{Prefixes: []string{"/d1/"}}})
		m.standsAt(t, w.Head())
		in := func(u string) bool { return strings.HasPrefix(u, w.Base+"d1/") }
		m.same(t, w.Site, in)
		for range 5 {
			w.edit()
		}
		w.Rename("d2", "d1/below")
		w.Publish()
		w.Write("d1/last.html", "last") // a waiting request gets a response when there is a change
		w.Publish()
		m.has(t, w.Base+"d1/last.html")
		m.same(t, w.Site, in)
		if len(m.errs) > 0 {
			t.Errorf("errors %v", m.errs)
		}
	}
}

// A page that leaves the selection is sent as deleted to subscribers that had it, and to no
// others; the same for one that left while its reader was away.
func TestPageLeavingFilterIsDeleted(t *testing.T) {
	long := func(n int) string { return strings.Repeat("word ", n) }
	for _, src := range []client.Source{
		{As: protocol.AsPage, Filter: protocol.Filter{MaxLength: 600}},
		{As: protocol.AsPage, NoStream: true, Filter: protocol.Filter{MaxLength: 600}},
		{As: protocol.AsPage, Filter: protocol.Filter{Where: `page.length <= 600`}},
		{As: protocol.AsDelta, NoStream: true, Filter: protocol.Filter{Where: `page.length <= 600`}},
		{As: protocol.AsBatch, Filter: protocol.Filter{MaxLength: 600, MinSignificance: 1}},
	} {
		w := newWholeSite(t, 30)
		w.Write("d1/long.html", long(200))
		w.Publish()
		m := newMirror()
		src.Base, src.Held = w.Base, m.held
		in := func(u string) bool { return len(w.Pages()[u]) <= 600 }
		same := func() {
			t.Helper()
			last := w.Pages()[w.Base+"d1/p1.html"]
			w.Write("d1/p1.html", "last, after "+protocol.Sum([]byte(last)).String()) // a waiting request gets a response when there is a change
			m.standsAt(t, w.Publish())
			m.same(t, w.Site, in)
		}
		gone := func(s client.Step) {
			for _, c := range s.Changes {
				if c.Item.URL == w.Base+"d1/long.html" {
					t.Errorf("as=%s %v: received a page outside the filter: %+v", src.As, src.Filter.Query(), c)
				}
			}
		}
		stop := m.followAnd(t, &src, gone)
		m.standsAt(t, w.Head())
		m.same(t, w.Site, in)
		w.Write("d1/long.html", long(201)) // was not selected, and is not
		w.Write("d2/p2.html", long(200))   // leaves
		w.Publish()
		same()
		w.Write("d2/p2.html", "short again")
		w.Publish()
		same()
		stop()
		w.Write("d1/long.html", long(202))
		w.Write("d2/p2.html", long(200))
		w.Publish()
		w.Write("d2/p2.html", long(300)) // the last of its changes does not say that it left
		w.Publish()
		w.Write("d1/p4.html", long(200))
		w.Publish()
		w.Remove("d1/p4.html")
		w.Publish()
		m.followAnd(t, &src, gone)
		same()
		if len(m.errs) > 0 {
			t.Errorf("as=%s %v: errors %v", src.As, src.Filter.Query(), m.errs)
		}
	}
}

// A filter that only the site can evaluate is sent to it, in as many parts as needed.
func TestFilterEvaluatedBySite(t *testing.T) {
	w := newWholeSite(t, 30)
	w.Break("/parley/query", func(rw http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		q := r.URL.Query()
		q.Set("limit", "4")
		r.URL.RawQuery = q.Encode()
		own(rw, r)
	})
	m := newMirror()
	m.follow(t, &client.Source{Base: w.Base, As: protocol.AsPage, Held: m.held,
		Filter: protocol.Filter{Where: `change.url.contains("/d1/")`, Ops: []protocol.Op{protocol.Create, protocol.Update, protocol.Delete, protocol.Move}}})
	m.standsAt(t, w.Head())
	in := func(u string) bool { return strings.HasPrefix(u, w.Base+"d1/") }
	m.same(t, w.Site, in)
	if n := w.Hits("/parley/query", ""); n != 3 || len(m.errs) > 0 || w.Hits("/robots.rdf", "") > 0 {
		t.Errorf("%d questions, errors %v", n, m.errs)
	}
	w.Write("d1/p1.html", "edited")
	w.Write("d2/p2.html", "edited, too")
	m.standsAt(t, w.Publish())
	m.same(t, w.Site, in)
}

// A client that reads the manifest again gets the changes, and does not take them for a snapshot.
func TestPartialManifestIsNoSnapshot(t *testing.T) {
	w := newWholeSite(t, 30)
	var mu sync.Mutex
	statuses := map[int]int{}
	w.Break("/robots.rdf", func(rw http.ResponseWriter, r *http.Request, own http.HandlerFunc) {
		own(&counting{ResponseWriter: rw, count: func(status int) {
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		}}, r)
	})
	m := newMirror()
	m.follow(t, &client.Source{Base: w.Base, Held: m.held, NoStream: true, NoChanges: true, Every: func(time.Time) time.Duration { return time.Second }})
	m.standsAt(t, w.Head())
	m.same(t, w.Site, nil)
	for range 3 {
		m.standsAt(t, w.edit())
		m.same(t, w.Site, nil)
	}
	mu.Lock()
	defer mu.Unlock()
	if statuses[http.StatusIMUsed] < 2 || statuses[http.StatusOK] > 2 || len(m.errs) > 0 {
		t.Errorf("answers %v, errors %v", statuses, m.errs)
	}
}
