package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/protocol"
)

// pageReport describes the response to the page's request.
func pageReport(r *reply) Page {
	p := Page{Status: r.status, Fault: r.fault, Proto: r.proto, Bytes: len(r.body), Wire: r.wire, Cut: r.cut, Took: r.took.Round(time.Microsecond)}
	if r.header == nil {
		return p
	}
	p.Type, p.Coding = r.header.Get("Content-Type"), r.header.Get("Content-Encoding")
	p.ETag, p.LastModified = r.header.Get("ETag"), r.header.Get("Last-Modified")
	if t, err := http.ParseTime(p.LastModified); err == nil {
		if _, ok := protocol.SaneModified(t, r.at, protocol.DateLimits{}); !ok {
			p.Date = "absurd"
		} else if d, err := http.ParseTime(r.header.Get("Date")); err == nil && d.Sub(t).Abs() < 2*time.Second {
			p.Date = "now" // the time of the response: it says nothing, unless it was there before
		}
	}
	return p
}

// again fetches the page by its ETag and by its date, and collects the URLs that it names.
func (a *run) again(ctx context.Context) error {
	if !a.home.ok() {
		return nil
	}
	a.measured.bodies = append(a.measured.bodies, a.home.wire)
	a.read(a.home)
	p := &a.report.Page
	for _, c := range []struct {
		validator fetch.Validators
		says      *string
	}{{fetch.Validators{ETag: p.ETag}, &p.ByETag}, {fetch.Validators{LastModified: p.LastModified}, &p.ByDate}} {
		h := c.validator.Header()
		if len(h) == 0 {
			continue
		}
		r, err := a.fetcher.fetch(ctx, a.home.url, request{max: maxPage, header: h})
		if err != nil {
			return err
		}
		*c.says = a.measured.again(r, a.home)
		p.Varying = p.Varying || *c.says == otherContent
	}
	return nil
}

// read collects the URLs that the page names.
func (a *run) read(r *reply) {
	if t := strings.ToLower(r.header.Get("Content-Type")); !strings.HasPrefix(t, "text/html") && !strings.HasPrefix(t, "application/xhtml+xml") {
		return
	}
	s := html.Scanner{Agent: strings.ToLower(a.p.token())}
	s.Scan(r.body)
	p := &a.report.Page
	p.Title, p.Language, p.NoIndex = s.Head.Title, s.Head.Language, s.Head.NoIndex || html.Expired(s.Head.UnavailableAfter, time.Now())
	base := r.url
	if len(s.Head.Base) > 0 {
		if b, err := protocol.CanonicalURL(r.url, string(s.Head.Base)); err == nil {
			base = b
		}
	}
	n, seen := &a.named, make(map[string]bool)
	for _, ref := range s.Refs.List {
		u, err := protocol.CanonicalURL(base, string(ref.URL))
		if err != nil || seen[u] {
			continue
		}
		seen[u] = true
		switch ref.Kind {
		case html.Feed:
			n.feeds = append(n.feeds, u)
		case html.Sitemap:
			n.sitemaps = append(n.sitemaps, u)
		case html.Manifest:
			n.manifests = append(n.manifests, u)
		case html.Anchor, html.Frame, html.Refresh, html.Alternate:
			if protocol.Origin(u) == a.report.Origin && u != r.url {
				p.Links++
				if len(n.links) < maxListed {
					n.links = append(n.links, listed{url: u})
				}
			}
		}
	}
	for _, l := range links(r.header) {
		u, err := protocol.CanonicalURL(r.url, l.target)
		switch {
		case err != nil:
		case slices.Contains(l.rels, "hub"):
			a.report.hub(u)
		case slices.Contains(l.rels, "alternate") && (strings.Contains(l.params, "rss") || strings.Contains(l.params, "atom") || strings.Contains(l.params, "feed+json")) && !seen[u]:
			n.feeds = append(n.feeds, u)
		}
	}
	a.measured.pages = p.Links + 1
}

// A link is one entry of a Link header (RFC 8288).
type link struct {
	target string
	rels   []string
	params string // in lower case
}

// links parses Link headers, ignoring malformed parts; at most 50 links.
func links(h http.Header) (list []link) {
	for _, v := range h.Values("Link") {
		for len(v) > 0 && len(list) < 50 {
			_, rest, ok := strings.Cut(v, "<")
			if !ok {
				break
			}
			target, params, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			params, v, _ = strings.Cut(params, "<")
			l := link{target: target, params: strings.ToLower(params)}
			if _, rel, ok := strings.Cut(l.params, "rel="); ok {
				if q, ok := strings.CutPrefix(rel, `"`); ok {
					rel, _, _ = strings.Cut(q, `"`)
				} else {
					rel, _, _ = strings.Cut(strings.TrimRight(rel, ", "), ";")
				}
				l.rels = strings.Fields(rel)
			}
			list = append(list, l)
		}
	}
	return list
}

// soft404 fetches a page that cannot exist (P12), in the page's own directory, since sites differ in their
// responses by directory.
func (a *run) soft404(ctx context.Context) error {
	var b [12]byte
	rand.Read(b[:])
	u, _, _ := strings.Cut(a.report.URL, "?")
	u = u[:strings.LastIndexByte(u, '/')+1] + "parley-probe-" + hex.EncodeToString(b[:]) + ".html"
	r, err := a.fetcher.try(ctx, u, request{max: maxPage})
	if err != nil || r == nil {
		return err
	}
	m := Missing{URL: u, Status: r.status}
	switch {
	case r.status == http.StatusNotFound || r.status == http.StatusGone:
		m.Verdict = "honest"
	case r.ok() && r.url == a.home.url:
		m.Verdict = "soft: redirects to the probed page"
	case r.ok():
		m.Verdict = "soft: answered like an existing page"
	case r.elsewhere != "":
		m.Verdict = "soft: redirects to another site"
	default:
		m.Verdict = "unclear"
	}
	a.report.Missing = &m
	return nil
}

// twin fetches the same page with or without www. (P08, E44).
func (a *run) twin(ctx context.Context) error {
	origin := a.report.Origin
	scheme, host, _ := strings.Cut(origin, "://")
	name, _, _ := strings.Cut(host, ":")
	switch {
	case strings.HasPrefix(host, "www."):
		host = host[len("www."):]
	case !strings.Contains(name, ".") || strings.HasPrefix(host, "[") || strings.Trim(name, "0123456789.") == "":
		return nil // an IP address, or a name without a dot
	default:
		host = "www." + host
	}
	t := Twin{Origin: scheme + "://" + host}
	a.report.Twin = &t
	if r, err := a.fetcher.fetchRobots(ctx, t.Origin); err != nil {
		return err
	} else if r.status == 0 {
		t.Verdict = "unreachable: " + r.fault
		return nil
	}
	r, err := a.fetcher.try(ctx, t.Origin+pathOf(a.report.URL), request{max: maxPage})
	switch {
	case err != nil:
		return err
	case r == nil:
		t.Verdict = "forbidden by its robots.txt"
	case r.status == 0:
		t.Verdict = "no response: " + r.fault
	case protocol.Origin(r.elsewhere) == origin:
		t.Verdict = "same site: redirects here"
	case r.elsewhere != "":
		t.Verdict = "redirects to " + r.elsewhere
	case sameBody(r, a.home):
		t.Verdict = "same site: same page"
	case r.ok():
		t.Verdict = "another page, or one that differs at each request"
	default:
		t.Verdict = "responds with " + http.StatusText(r.status)
	}
	return nil
}
