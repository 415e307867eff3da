package crawl

import (
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// A parser parses one answer at a time.
type parser struct {
	gatherer gather.Gatherer
	page     gather.Page
}

// pageReader turns answers into visits, and also pages that came without a request of their own. At most one answer per core is
// parsed at a time.
type pageReader struct {
	c     *setup
	work  *work
	in    *inbox
	sites *siteTable
	judge *judgement.Judge
	trust trustRule
	count *counters

	parsers chan *parser // the idle ones; there is one per core
}

// answerHandler handles the answers of the Harvester.
type answerHandler struct {
	c        *setup
	work     *work
	in       *inbox
	sites    *siteTable
	families *families
	reader   *pageReader
	sources  *sources
	count    *counters
}

// take parses an answer in the goroutine that received it, since its bytes are in
// the caches of that core. At most one answer per core is parsed at a time.
func (r *answerHandler) take(a *harvest.Answer) {
	r.count.asked(a)
	if a.Fault != "" {
		r.c.Log.Debug("fetch failed", "url", a.Task.URL, "fault", a.Fault, "err", a.Err)
	}
	if a.Header.Get("Use-As-Dictionary") != "" {
		r.work.Lock()
		if st := r.sites.byID[a.Site]; st != nil {
			st.differs = true
		}
		r.work.Unlock()
	}
	switch {
	case a.Page == 0:
		r.reader.withParser(func(rd *parser) {
			if !r.sources.handle(a) {
				r.softAnswered(a, rd)
				a.Release()
			}
		})
	case notAsked(a):
		a.Release()
		r.sites.leave(a)
		r.in.Put(result{again: []frontier.PageID{a.Page}, busy: 1})
	default:
		x := result{answer: a, busy: 1}
		r.reader.withParser(func(rd *parser) {
			rd.page.HTML, rd.gatherer.Pairs = false, r.families.compares(a.Site)
			x.visits = []collection.Visit{r.reader.visit(a, rd)}
			if rd.page.HTML && rd.gatherer.Pairs {
				x.pairs = append([]uint32{}, rd.page.Pairs...)
			}
			rd.gatherer.Pairs = false
		})
		if r.c.Collection.Contents().None { // so that the next answer can reuse its memory
			v := &x.visits[0]
			v.Length, v.Body = int64(len(v.Body)), nil
			a.Release()
		}
		r.in.Put(x)
	}
}

// withParser calls f with a parser, once one is free.
func (r *pageReader) withParser(f func(*parser)) {
	p := <-r.parsers
	defer func() { r.parsers <- p }()
	f(p)
}

// notAsked reports whether a page was not fetched after all: the batch has
// ended, or its site was silent too often.
func notAsked(a *harvest.Answer) bool {
	if a.Fault == harvest.FaultStopped {
		return true
	}
	return a.Asked.IsZero() && (a.Fault == harvest.FaultConnect || a.Fault == harvest.FaultTimeout || a.Fault == harvest.FaultProtocol)
}

// visit returns the visit that results from the answer for a page.
func (r *pageReader) visit(a *harvest.Answer, rd *parser) collection.Visit {
	st, page := r.sites.known(a.Site), &rd.page
	v := collection.Visit{Page: a.Page, Asked: a.Asked, Latency: a.Latency, Took: a.Took, Connect: a.Connect, PerConnection: a.PerConnection, IP: a.IP,
		Status: a.Status, Request: a.Request, Proto: a.Proto, Header: a.Header, Claimed: a.Claimed, Want: a.Want, Authorized: a.Authorized}
	dated := true
	if st != nil {
		v.Unstable, dated = r.judge.Pages(st.standing)
	}
	if a.Fault != "" && a.Fault != harvest.FaultSize {
		v.Fault = string(a.Fault)
		if a.Err != nil {
			v.Fault = a.Err.Error()
		}
		v.Silent = a.Fault == harvest.FaultDNS || a.Fault == harvest.FaultConnect || a.Fault == harvest.FaultTimeout && a.Status == 0
		v.DNS = a.Fault == harvest.FaultDNS
		return v
	}
	h := a.Header
	v.ETag, v.LastModified = h.Get("ETag"), h.Get("Last-Modified")
	if a.Status == http.StatusNotModified && v.LastModified == "" {
		v.LastModified = a.IfModifiedSince // a 304 with an ETag may omit it, and confirms it (RFC 9110, 15.4.5)
	}
	v.Type = mediaType(h)
	v.Again = retryAfter(h, time.Now())
	v.Expires = fetch.Expiry(h, v.Asked)
	if t, err := http.ParseTime(v.LastModified); err == nil {
		if sane, ok := protocol.SaneModified(t, time.Now(), r.c.Trust.Dates); ok && dated {
			v.Modified = sane
		}
	}
	switch {
	case gather.IsPage(a.Status):
		v.Body, v.Cut = a.Body, a.Fault == harvest.FaultSize
		if a.File != nil {
			if err := spilled(&v, a); err != nil {
				v.Fault = err.Error()
			}
			return v
		}
		if r.c.NoParse {
			v.Digest = protocol.Sum(a.Body)
			return v
		}
		rd.gatherer.Sketch = r.c.Gatherer.Sketch || r.c.Significant && r.c.Only == "" && st != nil && r.sites.announces(st)
		if err := rd.gather(a, a.Text || v.Unstable != collection.Stable); err != nil {
			r.c.Log.Debug("parse page", "url", a.URL, "err", err)
		}
		if !a.Want.IsZero() && a.Want != page.Body && page.Text.IsZero() { // the main text may match the announced one
			rd.gather(a, true)
		}
		v.Title, v.Language, v.Canonical = page.Title, page.Language, page.Canonical
		v.NoIndex, v.NoFollow = page.NoIndex, page.NoFollow
		v.Digest, v.Parsed, v.Text, v.Sketch, v.References = page.Body, page.Parsed, page.Text, page.Sketch, page.References
		if v.Soft404 = r.looksGone(st, a, page); !v.Soft404 {
			r.admit(a, page, &v)
		}
	case a.Status >= 300: // for the archive
		v.Body, v.Cut = a.Body, a.Cut
	}
	if a.Location != "" {
		depth := seed.RedirectDepth(a.URL, a.Location, a.Depth)
		if f := find(r.c.Seeder.Admit(seed.Ref{URL: a.Location, Depth: depth, Kind: seed.Redirect}), depth, collection.ByLink); f.URL != "" {
			if a.Authorized && protocol.Origin(f.URL) != protocol.Origin(a.URL) && !r.c.Harvester.Authorizes(f.URL) {
				f.Exclude = "found with cookies or a client certificate"
				r.c.Log.Info("redirect is not followed: the page was fetched with cookies or a client certificate, and its target would not be", "url", a.URL)
			}
			v.Target = &f
		}
	}
	return v
}

// gather parses a page, and digests its main text if text or the Gatherer's option is set.
func (rd *parser) gather(a *harvest.Answer, text bool) error {
	g := &rd.gatherer
	defer func(always bool) { g.Text = always }(g.Text)
	g.Text = g.Text || text
	return g.Read(&rd.page, a.URL, a.Header, a.Body)
}

// admit passes the links of a page to the Seeder.
func (r *pageReader) admit(a *harvest.Answer, page *gather.Page, v *collection.Visit) {
	if page.NoFollow {
		return
	}
	v.Links = make([]collection.Find, 0, len(page.Links))
	for _, l := range page.Links {
		switch l.Kind {
		case gather.Feed, gather.Sitemap, gather.Manifest:
			r.named(a.Site, l)
			continue
		}
		if l.NoFollow {
			continue
		}
		ref := seed.Ref{URL: l.URL, Depth: a.Depth + 1}
		if l.Kind == gather.Embedded {
			ref.Kind = seed.Embedded
		}
		if f := stored(r.c.Seeder.Admit(ref), ref.Depth, collection.ByLink); f.URL != "" {
			v.Links = append(v.Links, f)
		}
	}
}

// byRobots reports whether robots.txt alone forbids a URL: such a page is stored,
// so that it can be shown, and fetched when robots.txt changes.
func byRobots(v seed.Verdict) bool { return v.URL != "" && strings.HasPrefix(v.Rule, robotsRule) }

const robotsRule = "robots.txt"

// stored is find, or the zero Find if a URL is refused by a rule other than robots.txt: such a URL is not stored.
func stored(v seed.Verdict, depth int, by collection.Signal) collection.Find {
	if v.OK || v.Partition > 0 || byRobots(v) {
		return find(v, depth, by)
	}
	return collection.Find{}
}

func find(v seed.Verdict, depth int, by collection.Signal) collection.Find {
	f := collection.Find{URL: v.URL, Ask: v.Ask, Depth: depth, By: by, Dynamic: v.Dynamic, LogOnly: v.LogOnly, Partition: v.Partition}
	if !v.OK {
		f.Exclude = v.Rule
	}
	return f
}

func mediaType(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// longestAgain bounds the Retry-After of a site.
const longestAgain = 24 * time.Hour

// retryAfter returns when a response's Retry-After ends, the zero time if it has
// none.
func retryAfter(h http.Header, now time.Time) time.Time {
	if wait, ok := fetch.RetryAfter(h, now, longestAgain); ok {
		return now.Add(wait)
	}
	return time.Time{}
}
