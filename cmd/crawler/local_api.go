package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/steer"
	"github.com/parleyweb/parley/protocol"
)

// A localAPI answers about a collection: to other processes while a crawler runs,
// and to the very command that was given when none does. So every subcommand
// is written once, and works beside a running crawler.
//
//	GET  /status                         how it stands
//	GET  /sites?sorted=                  JSON lines of siteRow
//	GET  /pages?site=&prefix=&state=     JSON lines of pageRow
//	GET  /links?url=                     JSON lines of pageRow; with all=true in place of url, of linkRow, the last of which may report damage
//	GET  /why?url=                       all that speaks for and against a page
//	POST /add                            URLs to ask for at once
//	GET  /events?after=&follow=&text=    JSON lines of eventLine
//	GET  /get?url=&at=&header=           a body
//	GET  /urls?prefix=&newest=           a list of URLs
//	GET  /index?prefix=                  an inverted index
//	GET  /state                          a copy of state.db
//	POST /export                         an exporting; how many records were written
//	POST /accept                         an origin; how many pages were dropped
//	POST /pause, /resume                 a list of sites, or ["all"]; a nowSet, as are the next two
//	POST /rate                           a steer.Rate
//	POST /scope                          a steer.Scope
//
// All but /get, /urls, /index, /state and /export are also served below /api/ on --admin, and all but the last three over NATS with --cluster.
type localAPI struct {
	col     *collection.Collection
	crawler *crawl.Crawler // nil if none runs
	log     *slog.Logger
}

// collectionIn returns the directory of the collection in dir: that of a copy is hidden inside it.
func collectionIn(dir string) string {
	if _, err := os.Stat(statePath(dir)); err != nil {
		if _, err := os.Stat(statePath(stateIn(dir))); err == nil {
			return stateIn(dir)
		}
	}
	return dir
}

// statePath is the file of a collection that its holder has open.
func statePath(dir string) string { return filepath.Join(dir, contents.StateFile) }

// handler answers to processes of this user.
func (d *localAPI) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /index", d.index)
	m.HandleFunc("GET /state", d.state)
	m.HandleFunc("POST /export", d.export) // writes files
	m.Handle("/", d.contents())
	return m
}

// contents answers to those who may read the contents of all pages: also on other machines of a --cluster.
func (d *localAPI) contents() *http.ServeMux {
	m := d.remote()
	m.HandleFunc("GET /get", d.get)
	m.HandleFunc("GET /urls", d.urls)
	return m
}

// remote answers to processes of other machines, too.
func (d *localAPI) remote() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /status", d.status)
	m.HandleFunc("GET /sites", d.sites)
	m.HandleFunc("GET /pages", d.pages)
	m.HandleFunc("GET /why", d.why)
	m.HandleFunc("GET /events", d.events)
	m.HandleFunc("GET /links", d.links)
	m.HandleFunc("POST /accept", d.accept)
	m.HandleFunc("POST /add", d.add)
	m.HandleFunc("POST /pause", steered(d, `["https://www.example.org"], or ["all"] for all sites`, (*steer.Steering).Pause))
	m.HandleFunc("POST /resume", steered(d, `["https://www.example.org"], or ["all"] for all sites`, (*steer.Steering).Resume))
	m.HandleFunc("POST /rate", steered(d, `{"budget": "5000"}`, (*steer.Steering).SetRate))
	m.HandleFunc("POST /scope", steered(d, `{"reject": ["/archive/"]}`, (*steer.Steering).SetScope))
	return m
}

// refuse responds with an error, in the form of RFC 9457.
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"status": status, "detail": err.Error()})
}

func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// lines responds with one line of JSON for each row. An error after the first line aborts the response, so
// that the client does not take it for complete.
func lines[T any](w http.ResponseWriter, rows iter.Seq2[T, error]) {
	enc := json.NewEncoder(w)
	begun := false
	for row, err := range rows {
		if err != nil {
			if begun {
				panic(http.ErrAbortHandler)
			}
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			begun = true
		}
		if enc.Encode(row) != nil {
			return
		}
		if f, ok := w.(http.Flusher); ok && w.Header().Get(eachLine) != "" {
			f.Flush()
		}
	}
	if !begun {
		w.Header().Set("Content-Type", "application/x-ndjson")
	}
}

// eachLine is the header of a response whose lines come slowly, and must be sent one by one.
const eachLine = "X-Each-Line"

// A siteRow is a row of "crawler sites".
type siteRow struct {
	Origin     string    `json:"origin"`
	Pages      int       `json:"pages"`
	Held       int       `json:"held"`
	Ready      int       `json:"ready"`
	Gone       int       `json:"gone"`
	Fresh      float64   `json:"fresh"`   // expected share of the held pages that are current; -1: unknown, as for a site in trouble or of a copy
	ToldBy     string    `json:"told_by"` // the best way in which it announces changes
	Honest     float64   `json:"honest"`  // estimated share of its announcements that are right, as in "crawler why"; -1: nothing was judged
	Judged     int       `json:"judged"`
	PerDay     float64   `json:"requests_a_day"`
	Requests   int64     `json:"requests"`
	Bytes      int64     `json:"bytes"`
	Duplicates int       `json:"duplicates"`
	Fault      string    `json:"fault,omitempty"`
	FaultAt    time.Time `json:"fault_at,omitzero"`
	Quiet      time.Time `json:"quiet,omitzero"`
	Paused     bool      `json:"paused,omitempty"` // by a person

	// Moving averages of what the responses of pages took, in seconds, and of the requests over one connection; 0: not known.
	Connect       float64 `json:"connect"`
	Response      float64 `json:"response"`
	PerConnection int     `json:"per_connection"`

	// Of the stored pages whose last response was one: bytes a second, seconds to the first byte, and the sum of their link scores.
	Speed   float64 `json:"bytes_a_second"`
	Latency float64 `json:"latency"`
	Rank    float64 `json:"rank"`
}

// A pageRow is a row of "crawler pages".
type pageRow struct {
	URL      string    `json:"url"`
	State    string    `json:"state"`
	Status   int       `json:"status,omitempty"`
	Depth    int       `json:"depth"`
	Type     string    `json:"type,omitempty"`
	Length   int64     `json:"length,omitempty"`
	Cut      bool      `json:"truncated,omitempty"` // the page is longer than --max-file
	Unstable string    `json:"unstable,omitempty"`  // what differs at each request: body, or text
	Title    string    `json:"title,omitempty"`
	Language string    `json:"language,omitempty"`
	Digest   string    `json:"digest,omitempty"`
	Text     string    `json:"text,omitempty"`
	Rank     float32   `json:"rank,omitempty"` // Pagerank, 1 for the average page; 0: never computed
	Visits   int       `json:"visits"`
	Changes  int       `json:"changes"`
	Last     time.Time `json:"last,omitzero"`
	Modified time.Time `json:"modified,omitzero"`
	Next     time.Time `json:"next,omitzero"`
	Why      string    `json:"why,omitempty"`
	Fault    string    `json:"fault,omitempty"`
	Target   string    `json:"target,omitempty"`

	Stored *contents.Place `json:"stored,omitempty"`
}

func rowOf(p *collection.Page) pageRow {
	r := pageRow{URL: p.URL, State: p.State.String(), Status: p.Status, Depth: p.Depth, Type: p.Type, Length: p.Length, Title: p.Title,
		Language: p.Language, Rank: p.Rank, Visits: p.Visits, Changes: p.Changes, Last: p.Last, Modified: p.Modified, Why: p.Why, Fault: p.Fault, Target: p.Target}
	if r.Cut = p.Cut; p.Unstable != collection.Stable {
		r.Unstable = p.Unstable.String()
	}
	if !p.Digest.IsZero() {
		r.Digest = p.Digest.String()
	}
	if !p.Text.IsZero() {
		r.Text = p.Text.String()
	}
	if p.Stored.File != "" {
		r.Stored = &p.Stored
	}
	if p.At.Before(collection.Never) {
		r.Next = p.At
	}
	return r
}

func (d *localAPI) pages(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	site, prefix, state := q.Get("site"), q.Get("prefix"), q.Get("state")
	lines(w, func(yield func(pageRow, error) bool) {
		for p, err := range d.col.Pages(req.Context()) {
			if err != nil {
				yield(pageRow{}, err)
				return
			}
			if site != "" && protocol.Origin(p.URL) != site || !strings.HasPrefix(p.URL, prefix) || state != "" && p.State.String() != state {
				continue
			}
			if !yield(rowOf(&p), nil) {
				return
			}
		}
	})
}

// A linkRow is a row of "crawler links --all". If records are damaged, the last row says so: Damaged is how many pages have links that
// cannot be read, and From the first of those pages.
type linkRow struct {
	From    string `json:"from"`
	To      string `json:"to,omitempty"`
	Damaged int    `json:"damaged,omitempty"`
}

// fault implements faulty.
func (r *linkRow) fault() error {
	if r.Damaged == 0 {
		return nil
	}
	return fmt.Errorf("list links: links of %s are missing, since records in state.db are damaged; the first page is %s: "+
		"restore the directory from a backup, or move state.db away and crawl again", admin.Many(r.Damaged, "page", "pages"), printable(r.From))
}

// mostURLs is how many URLs are cached while all links are listed.
const mostURLs = 1 << 16

// graph yields all stored links, except those of pages for which a record is damaged. Memory holds the URLs of some pages only.
func (d *localAPI) graph(ctx context.Context, yield func(linkRow, error) bool) {
	urls := map[frontier.PageID]string{}
	last, stopped := linkRow{}, false
	err := d.col.Graph(func(from frontier.PageID, to []frontier.PageID, damaged error) bool {
		if len(urls) > mostURLs {
			clear(urls)
		}
		var more []frontier.PageID
		for _, id := range append(to[:len(to):len(to)], from) {
			if _, known := urls[id]; !known {
				more = append(more, id)
			}
		}
		list, unread := d.col.PagesByID(more)
		if damaged != nil || errors.Is(unread, collection.ErrDamaged) {
			if last.Damaged++; last.Damaged == 1 {
				p, _, _ := d.col.PageByID(from)
				last.From = cmp.Or(p.URL, fmt.Sprintf("page number %d", from))
			}
			return ctx.Err() == nil
		}
		if unread != nil {
			yield(linkRow{}, unread)
			stopped = true
			return false
		}
		for i := range list {
			urls[more[i]] = list[i].URL
		}
		for _, id := range to {
			if stopped = urls[id] != "" && !yield(linkRow{From: urls[from], To: urls[id]}, nil); stopped {
				return false
			}
		}
		return ctx.Err() == nil
	})
	if err = errors.Join(err, ctx.Err()); err != nil && !stopped {
		yield(linkRow{}, err)
	} else if last.Damaged > 0 && !stopped {
		yield(last, nil)
	}
}

// linksIn yields all links of the collection in a directory as pairs of URLs, also while a crawler runs on it.
func linksIn(ctx context.Context, dir string, log *slog.Logger) iter.Seq2[[2]string, error] {
	return func(yield func([2]string, error) bool) {
		body, err := ask(ctx, dir, "GET", "/links?all=true", nil, log)
		if err != nil {
			yield([2]string{}, err)
			return
		}
		defer body.Close()
		for dec := json.NewDecoder(body); ; {
			var r linkRow
			err := dec.Decode(&r)
			if err == io.EOF {
				return
			}
			if err = cmp.Or(err, r.fault()); !yield([2]string{r.From, r.To}, err) || err != nil {
				return
			}
		}
	}
}

func (d *localAPI) links(w http.ResponseWriter, req *http.Request) {
	if req.URL.Query().Get("all") == "true" {
		lines(w, func(yield func(linkRow, error) bool) { d.graph(req.Context(), yield) })
		return
	}
	p, ok, err := d.page(req.URL.Query().Get("url"))
	if err != nil || !ok {
		notKnown(w, req.URL.Query().Get("url"), err)
		return
	}
	ids, err := d.col.Links(p.ID)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	list, err := d.col.PagesByID(ids)
	lines(w, func(yield func(pageRow, error) bool) {
		if err != nil {
			yield(pageRow{}, err)
			return
		}
		for i := range list {
			if !yield(rowOf(&list[i]), nil) {
				return
			}
		}
	})
}

// page finds a page by a URL as typed.
func (d *localAPI) page(u string) (collection.Page, bool, error) {
	canonical, err := protocol.CanonicalURL("", u)
	if err != nil {
		return collection.Page{}, false, err
	}
	return d.col.Page(canonical)
}

func notKnown(w http.ResponseWriter, u string, err error) {
	if err == nil {
		err = fmt.Errorf("%s is not known: \"crawler add URL\" fetches it", u)
	}
	refuse(w, http.StatusNotFound, err)
}

// decode reads the JSON of a request of at most so many bytes. If that fails, it refuses the request and returns false.
func decode(w http.ResponseWriter, req *http.Request, most int64, to any) bool {
	err := json.NewDecoder(io.LimitReader(req.Body, most)).Decode(to)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
	}
	return err == nil
}

// isRunning reports whether a crawler runs. If none does, it refuses the request.
func (d *localAPI) isRunning(w http.ResponseWriter) bool {
	if d.crawler == nil {
		refuse(w, http.StatusConflict, errNoCrawler)
	}
	return d.crawler != nil
}

func (d *localAPI) accept(w http.ResponseWriter, req *http.Request) {
	var origin string
	if decode(w, req, 1<<20, &origin) && d.isRunning(w) {
		n, err := d.crawler.Accept(origin)
		answer(w, n, err)
	}
}

func (d *localAPI) add(w http.ResponseWriter, req *http.Request) {
	var urls []string
	if decode(w, req, 16<<20, &urls) && d.isRunning(w) {
		verdicts, err := d.crawler.Add(req.Context(), urls)
		answer(w, verdicts, err)
	}
}

var errNoCrawler = errors.New("no crawler runs on this collection: start \"crawler run\", or give the URL to \"crawler crawl\"")

func noCollection(dir string) error {
	return fmt.Errorf("%s has no collection: \"crawler crawl URL --into %s\" makes one", dir, dir)
}

// ask sends a request to the process that holds the collection in dir; if none does, it opens the collection
// and answers itself. The response is to be read as it arrives, and closed.
func ask(ctx context.Context, dir, method, path string, in any, log *slog.Logger) (io.ReadCloser, error) {
	col, body, err := request(ctx, collectionIn(dir), method, path, in, log)
	if col == nil {
		return body, err
	}
	return inProcess(ctx, &localAPI{col: col, log: log}, method, path, in)
}
