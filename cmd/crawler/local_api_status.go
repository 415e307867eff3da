package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/engine/steer"
	"github.com/parleyweb/parley/protocol"
)

// A summary is the response of "crawler status" for a collection.
type summary struct {
	crawl.Status
	Known   int         `json:"known"` // pages
	Held    int         `json:"held"`
	Cut     int         `json:"truncated"` // of those, longer than --max-file, and not whole
	Gone    int         `json:"gone"`
	Ready   int         `json:"ready"`           // due for a fetch now
	Aside   int         `json:"aside,omitempty"` // pages of a mirror that are not stored under the names of their URLs
	Of      int         `json:"of"`              // sites known
	Private int         `json:"withheld"`        // of those, fetched with cookies or a client certificate: see collection.Site.Withheld
	Cursor  string      `json:"cursor"`          // of the newest event
	Memory  int         `json:"memory"`          // bytes used by the set of known URLs
	Trouble []siteFault `json:"trouble"`
	Policy  string      `json:"policy,omitempty"` // for revisits, now or when a crawler last ran
	Price   float64     `json:"price,omitempty"`  // of a visit under that policy, if it has one
	Copy    *copyStatus `json:"copy,omitempty"`   // set if the collection is a copy of one site

	Steering steer.Steering `json:"steering,omitzero"` // what a person has set
}

// A siteFault is a problem with a site.
type siteFault struct {
	Origin string    `json:"origin"`
	Fault  string    `json:"fault"`
	At     time.Time `json:"at"`
}

// mostTrouble is the maximum number of sites with trouble that are shown.
const mostTrouble = 10

func (d *localAPI) status(w http.ResponseWriter, req *http.Request) {
	s := summary{Known: d.col.Len(), Memory: d.col.Memory(), Trouble: []siteFault{}, Cursor: d.col.Log().Head().String()}
	if d.crawler != nil {
		s.Status = d.crawler.Status()
	}
	switch p, _, _ := d.col.Revisits().Kept(); p := p.(type) {
	case fresh.Priced:
		s.Policy, s.Price = cmp.Or(string(p.Objective.Rule), "priced"), p.Price
	case fresh.Thesis:
		s.Policy = "thesis"
	}
	for site := range d.col.Sites() {
		s.Of++
		s.Held += site.Held
		s.Cut += site.Cut
		s.Gone += site.Gone
		s.Ready += site.Ready
		if site.Withheld {
			s.Private++
		}
		if site.Fault != "" && len(s.Trouble) < mostTrouble {
			s.Trouble = append(s.Trouble, siteFault{site.Origin, site.Fault, site.FaultAt})
		}
	}
	var err error
	if s.Aside, err = d.col.Displaced(); err == nil {
		s.Copy, err = d.copyStatus(req.Context())
	}
	if err == nil {
		s.Steering, err = collection.Steering(d.col)
	}
	answer(w, s, err)
}

// A siteFresh sums up a site's pages: their expected freshness, and what their last responses took.
type siteFresh struct {
	sum    float64
	pages  int
	perDay float64

	rank          float64
	timed         int // pages whose last response was one
	bytes         int64
	took, latency time.Duration
}

func (d *localAPI) sites(w http.ResponseWriter, req *http.Request) {
	now := time.Now()
	of := map[frontier.SiteID]*siteFresh{}
	believed := map[frontier.SiteID]*fresh.Site{}
	for s := range d.col.Sites() {
		believed[s.ID] = s.Belief
	}
	for p, err := range d.col.Pages(req.Context()) {
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		if p.State != collection.Held {
			continue
		}
		f := of[p.Site]
		if f == nil {
			f = &siteFresh{}
			of[p.Site] = f
		}
		f.pages++
		f.rank += float64(p.Rank)
		if p.Status == http.StatusOK && p.Took > 0 {
			f.timed, f.bytes, f.took, f.latency = f.timed+1, f.bytes+p.Length, f.took+p.Took, f.latency+p.Latency
		}
		b := fresh.Page{History: p.History, Site: believed[p.Site], Directory: fresh.Directory(p.URL)}
		f.sum += b.Fresh(now)
		if age := now.Sub(p.First).Hours() / 24; age > 0 && p.Visits > 1 {
			f.perDay += float64(p.Visits-1) / max(age, 1)
		}
	}
	_, copied := d.col.Copy() // of which nothing is estimated
	steering, err := collection.Steering(d.col)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	paused := steering.Pauses()
	all := d.col.Sites()
	if req.URL.Query().Get("sorted") == "true" {
		all = slices.Values(slices.SortedFunc(all, func(a, b collection.Site) int { return strings.Compare(a.Origin, b.Origin) }))
	}
	lines(w, func(yield func(siteRow, error) bool) {
		for s := range all {
			r := siteRow{Origin: s.Origin, Pages: s.Pages, Held: s.Held, Ready: s.Ready, Gone: s.Gone, Fresh: -1,
				Requests: s.Requests, Bytes: s.Bytes, Duplicates: s.Duplicates, Fault: s.Fault, FaultAt: s.FaultAt, Quiet: s.Quiet, Paused: paused(s.Origin),
				Connect: s.Speed.Connect, Response: s.Speed.Response, PerConnection: s.Speed.PerConnection}
			if f := of[s.ID]; f != nil && f.timed > 0 {
				r.Rank, r.Speed, r.Latency = f.rank, float64(f.bytes)/f.took.Seconds(), f.latency.Seconds()/float64(f.timed)
			}
			if f := of[s.ID]; f != nil && s.Fault == "" { // nothing is known of a site in trouble
				if r.PerDay = math.Round(f.perDay*10) / 10; !copied {
					r.Fresh = f.sum / float64(f.pages)
				}
			}
			r.Honest, r.Judged = honesty(&s)
			sources, err := d.col.Sources(s.ID)
			if err != nil {
				yield(r, err)
				return
			}
			r.ToldBy = toldBy(sources)
			for _, src := range sources {
				if !src.Held.IsZero() && r.Fault == "" {
					r.Fault, r.FaultAt = fmt.Sprintf("%d deletions are held back: see \"crawler accept\"", src.Doomed), src.Held
				}
			}
			if !yield(r, nil) {
				return
			}
		}
	})
}

// honesty returns the estimated share of a site's announcements that are right, -1 if none was judged, and how many were.
func honesty(s *collection.Site) (right float64, judged int) {
	if b := s.Belief; b != nil && b.Signal.Judgements() > 0 {
		return b.Signal.Precision(), b.Signal.Judgements()
	}
	return -1, 0
}

// toldBy returns the best way in which a site announces its changes.
func toldBy(sources []collection.Source) string {
	best, rank := "nothing", 0
	for _, s := range sources {
		if s.Status != http.StatusOK || s.Kind == collection.Robots || s.Changed.IsZero() || s.Kind != collection.ManifestRDF && s.Pages == 0 {
			continue
		}
		by, n := string(s.Kind), map[collection.SourceKind]int{collection.NewsFeed: 1, collection.SitemapXML: 2, collection.ManifestRDF: 3}[s.Kind]
		if s.Kind == collection.ManifestRDF && s.Door != "" {
			by = s.Door
		}
		if n > rank {
			best, rank = by, n
		}
	}
	return best
}

func (d *localAPI) why(w http.ResponseWriter, req *http.Request) {
	u := req.URL.Query().Get("url")
	if d.crawler != nil {
		y, err := d.crawler.Why(u)
		answer(w, y, err)
		return
	}
	s := &seed.Seeder{}
	if canonical, err := protocol.CanonicalURL("", u); err == nil {
		crawl.Remember(d.col, s, protocol.Origin(canonical))
	}
	y, err := crawl.Explain(d.col, s, u, time.Now())
	answer(w, y, err)
}

// whole is the number of bytes of a body that are read before any is sent, so that a damaged body is not sent
// at all. A damaged longer one is cut short.
const whole = 16 << 20

func (d *localAPI) get(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	p, ok, err := d.page(q.Get("url"))
	if err != nil || !ok {
		notKnown(w, q.Get("url"), err)
		return
	}
	withheld := fmt.Errorf("get %s: pages of its site were fetched with cookies or a client certificate: they are in warc/, and not given to others", p.URL)
	if site, _ := d.col.SiteByID(p.Site); site.Withheld {
		refuse(w, http.StatusForbidden, withheld)
		return
	}
	var content *contents.Content
	if at := q.Get("at"); at != "" {
		date, err := protocol.ParseDate(at)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		content, err = d.col.Contents().At(p.URL, date.Time)
		if err != nil {
			refuse(w, http.StatusNotFound, err)
			return
		}
	} else if content, err = d.col.Contents().Content(p.URL, p.Stored); err != nil {
		refuse(w, http.StatusNotFound, err)
		return
	}
	defer content.Close()
	if content.Authorized { // the mark of its site is lost, with a state that was restored
		refuse(w, http.StatusForbidden, withheld)
		return
	}
	begin, err := io.ReadAll(io.LimitReader(content, whole))
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // its type is for the reader to decide
	if q.Get("header") == "true" {
		fmt.Fprintf(w, "HTTP/1.1 %d %s\r\n", content.Status, http.StatusText(content.Status))
		content.Header.Write(w)
		io.WriteString(w, "\r\n")
	}
	if _, err := io.Copy(w, io.MultiReader(bytes.NewReader(begin), content)); err != nil {
		panic(http.ErrAbortHandler) // so that the client does not take it for complete
	}
}
