package probe

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/engine/trust"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/protocol"
)

// The nonce of a test handshake, and the GUID for the expected response (RFC 6455).
const (
	handshakeKey  = "cGFybGV5LXByb2JlLW5vdw=="
	handshakeGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// manifest looks for a manifest, and tests the doors that it names.
func (a *run) manifest(ctx context.Context) error {
	origin := a.report.Origin
	known, err := a.fetcher.try(ctx, origin+"/.well-known/parley", request{max: protocol.MaxDiscovery, header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return err
	}
	var said protocol.Discovery
	var places []string
	if known.ok() && json.Unmarshal(known.body, &said) == nil && said.Manifest != "" {
		places = append(places, said.Manifest)
	}
	places = append(append(places, a.report.Robots.Manifests...), a.named.manifests...)
	places = append(places, "/robots.rdf")
	var tried []string
	for _, place := range places {
		u, err := protocol.CanonicalURL(origin+"/robots.txt", place)
		if err != nil || protocol.Origin(u) != origin || slices.Contains(tried, u) || len(tried) == 2 {
			continue
		}
		tried = append(tried, u)
		r, err := a.fetcher.try(ctx, u, request{max: maxDocument, header: http.Header{"Accept": {protocol.ManifestType + ", application/xml;q=0.5, text/xml;q=0.5"}}})
		if err != nil {
			return err
		}
		if !r.ok() {
			continue
		}
		m, head, ok := a.readManifest(r)
		if !ok && a.report.Manifest != nil {
			continue
		}
		a.report.Manifest = m
		if !ok {
			continue
		}
		if m.NotModified, err = a.conditional(ctx, r, protocol.ManifestType); err != nil {
			return err
		}
		if u == said.Manifest {
			m.offers(&said)
		}
		return a.doors(ctx, m, head)
	}
	return nil
}

// resolve returns the canonical URL of a reference in the manifest; empty if it is on another host.
func (m *Manifest) resolve(ref string) string {
	if u, err := protocol.CanonicalURL(m.URL, ref); ref != "" && err == nil && protocol.Origin(u) == protocol.Origin(m.URL) {
		return u
	}
	return ""
}

// offers records the forms and filters that a site offers, and its other URLs.
func (m *Manifest) offers(d *protocol.Discovery) {
	for _, as := range protocol.Forms() {
		if slices.Contains(d.Forms, as) {
			m.Forms = append(m.Forms, as)
		}
	}
	for _, name := range protocol.FilterNames() {
		if slices.Contains(d.Filters, name) {
			m.Filters = append(m.Filters, name)
		}
	}
	m.Batch, m.Archive = m.resolve(d.Batch), m.resolve(d.Site)
}

// readManifest reads a manifest as far as it is well-formed.
func (a *run) readManifest(r *reply) (m *Manifest, head protocol.Manifest, ok bool) {
	m = &Manifest{URL: r.url, Bytes: len(r.body), Wire: r.wire}
	d := protocol.NewManifestReader(bytes.NewReader(r.body), protocol.ManifestOptions{URL: r.url, Origin: a.report.Origin, MaxItems: 1_000_000})
	var dates []protocol.Date
	for {
		rec, err := d.Next()
		if err == io.EOF {
			ok = true
			break
		}
		if err != nil {
			m.Fault = err.Error()
			break
		}
		if rec.Gone != nil {
			continue
		}
		m.Items++
		if !rec.Item.Digest.IsZero() {
			m.Digests++
		}
		if len(a.listed) < maxListed {
			date := protocol.Date{Time: rec.Item.Modified, Span: rec.Item.Span}
			a.listed, dates = append(a.listed, listed{rec.Item.URL, date}), append(dates, date)
		}
	}
	if !ok && m.Items == 0 {
		return m, head, false
	}
	head = d.Head()
	if w := head.Whole; w != nil {
		m.Items, m.Parts, head.Complete, head.Cursor = w.Items, len(w.Parts)+len(w.Changed), true, w.Cursor
	}
	m.Complete, m.Cursor = head.Complete, head.Cursor.String()
	m.Changes, m.Stream = head.Changes, head.Stream
	m.Dates = datesReport("manifest", dates, r.at)
	a.measured.pages, a.measured.whole = m.Items, ok && head.Complete
	a.measured.take("its manifest", m.Dates.worth, dates, r.at)
	return m, head, ok
}

// doors tests whether the doors that a manifest names respond as they should.
func (a *run) doors(ctx context.Context, m *Manifest, head protocol.Manifest) error {
	if head.Cursor.IsZero() {
		return nil
	}
	at := func(ref string) string {
		if rest, ok := strings.CutPrefix(ref, "ws"); ok && (strings.HasPrefix(rest, "://") || strings.HasPrefix(rest, "s://")) {
			ref = "http" + rest
		}
		u, sep := m.resolve(ref), "?"
		if u == "" {
			return ""
		}
		if strings.Contains(u, "?") {
			sep = "&"
		}
		return u + sep + "after=" + url.QueryEscape(head.Cursor.String())
	}
	if u := at(head.Changes); u != "" {
		r, err := a.fetcher.try(ctx, u, request{max: protocol.MaxMessage, header: http.Header{"Accept": {"application/json"}}})
		if err != nil {
			return err
		}
		if r.ok() {
			msg, err := protocol.ParseMessage(r.body)
			m.ChangesOpen = err == nil && msg.Kind == protocol.Batch
		}
	}
	if u := at(head.Stream); u != "" {
		r, err := a.fetcher.try(ctx, u, request{hand: true, header: http.Header{
			"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
			"Sec-Websocket-Key": {handshakeKey}, "Sec-Websocket-Protocol": {protocol.Subprotocol}}})
		if err != nil {
			return err
		}
		if r != nil && r.status == http.StatusSwitchingProtocols {
			sum := sha1.Sum([]byte(handshakeKey + handshakeGUID))
			m.StreamOpen = r.header.Get("Sec-WebSocket-Accept") == base64.StdEncoding.EncodeToString(sum[:]) &&
				r.header.Get("Sec-WebSocket-Protocol") == protocol.Subprotocol
		}
	}
	return nil
}

// conditional fetches a document again, by its ETag and Last-Modified, and returns the result.
func (a *run) conditional(ctx context.Context, r *reply, accept string) (string, error) {
	h := fetch.Validators{ETag: r.header.Get("ETag"), LastModified: r.header.Get("Last-Modified")}.Header()
	if len(h) == 0 {
		return "no ETag and no Last-Modified", nil
	}
	h.Set("Accept", accept)
	again, err := a.fetcher.try(ctx, r.url, request{max: maxDocument, header: h})
	if err != nil || again == nil {
		return "", err
	}
	return a.measured.again(again, r), nil
}

// feeds reads the feeds that the page names.
func (a *run) feeds(ctx context.Context) error {
	for _, u := range a.named.feeds {
		if len(a.report.Feeds) == maxFeeds {
			break
		}
		if protocol.Origin(u) != a.report.Origin {
			continue
		}
		r, err := a.fetcher.try(ctx, u, request{max: maxPage})
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		f := Feed{URL: u, Status: r.status, Fault: r.fault, Wire: r.wire}
		if r.ok() {
			if list, err := seed.ReadFeed(r.url, r.body); err != nil {
				f.Fault = err.Error()
			} else {
				f.Kind, f.Entries, f.Hub = list.Kind, len(list.Pages), list.Hub
				a.report.hub(f.Hub)
				var dates []protocol.Date
				for _, p := range list.Pages {
					dates = append(dates, protocol.Date{Time: p.Modified, Span: p.Span})
				}
				f.Dates = datesReport("feed", dates, r.at)
				if len(a.report.Feeds) == 0 {
					if f.NotModified, err = a.conditional(ctx, r, "*/*"); err != nil {
						return err
					}
				}
			}
		}
		a.report.Feeds = append(a.report.Feeds, f)
	}
	return nil
}

// sitemaps reads the sitemaps that robots.txt or the page names, or the one at the usual place.
func (a *run) sitemaps(ctx context.Context) error {
	type place struct{ url, by string }
	var places []place
	for _, l := range a.report.Robots.Sitemaps {
		places = append(places, place{l, "robots.txt"})
	}
	for _, u := range a.named.sitemaps {
		places = append(places, place{u, "the page"})
	}
	places = append(places, place{"/sitemap.xml", "a guess"})
	var tried []string
	var dates []protocol.Date
	sum, complete := 0, true
	for i := 0; i < len(places); i++ {
		u, err := protocol.CanonicalURL(a.report.Origin+"/", places[i].url)
		if err != nil || slices.Contains(tried, u) {
			continue
		}
		if places[i].by == "a guess" && len(a.report.Sitemaps) > 0 {
			continue
		}
		if protocol.Origin(u) != a.report.Origin || len(tried) == maxSitemaps {
			a.report.SitemapsUnread++
			complete = false
			continue
		}
		tried = append(tried, u)
		r, err := a.fetcher.try(ctx, u, request{max: maxDocument})
		if err != nil {
			return err
		}
		if r == nil || r.status == http.StatusNotFound && places[i].by == "a guess" {
			continue
		}
		s := Sitemap{URL: u, By: places[i].by, Status: r.status, Fault: r.fault, Wire: r.wire}
		if r.ok() {
			list, err := seed.ReadSitemap(r.url, r.body)
			if err != nil {
				s.Fault, complete = err.Error(), false
				if errors.Is(err, seed.ErrNone) && places[i].by == "a guess" {
					s.Fault = "not a sitemap: " + s.Fault
				}
			}
			s.Kind, s.Pages, s.Sitemaps = list.Kind, len(list.Pages), len(list.Sitemaps)
			sum += s.Pages
			var own []protocol.Date
			for _, p := range list.Pages {
				date := protocol.Date{Time: p.Modified, Span: p.Span}
				own = append(own, date)
				if !p.Foreign && len(a.mapped) < maxListed {
					a.mapped, dates = append(a.mapped, listed{p.URL, date}), append(dates, date)
				}
			}
			s.Dates = datesReport("sitemap", own, r.at)
			for _, c := range list.Sitemaps {
				places = append(places, place{c.URL, u})
			}
			if a.sitemap == nil && s.Pages > 0 {
				a.sitemap = r
			}
		}
		a.report.Sitemaps = append(a.report.Sitemaps, s)
	}
	if m := &a.measured; sum > m.pages && !m.whole {
		m.pages, m.whole = sum, complete
	}
	now := a.p.now()
	a.measured.take("its sitemaps", datesReport("sitemap", dates, now).worth, dates, now)
	return nil
}

// sample fetches a few pages of the sitemap, else of the manifest, else links of the page, to test whether
// they exist, and to compare the server's dates with the stated ones.
func (a *run) sample(ctx context.Context) error {
	list := a.mapped
	if len(list) == 0 {
		list = a.listed
	}
	if len(list) == 0 {
		list = a.named.links
	}
	if len(list) == 0 {
		return nil
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(x, y listed) int { return y.modified.Time.Compare(x.modified.Time) })
	s := &Sample{}
	a.report.Sample = s
	var headers []protocol.Date // credible ones
	picked := make(map[string]bool)
	for i := range samples {
		l := sorted[i*(len(sorted)-1)/max(samples-1, 1)]
		if picked[l.url] || l.url == a.home.url || protocol.Origin(l.url) != a.report.Origin {
			continue
		}
		picked[l.url] = true
		r, err := a.fetcher.try(ctx, l.url, request{max: maxPage})
		if err != nil {
			return err
		}
		if r == nil {
			s.Forbidden++
			continue
		}
		s.Asked++
		switch {
		case r.elsewhere != "" || r.ok() && r.url != l.url:
			s.Redirected++
			continue
		case !r.ok():
			s.Dead++
			continue
		}
		a.measured.bodies = append(a.measured.bodies, r.wire)
		t, err := http.ParseTime(r.header.Get("Last-Modified"))
		if err != nil {
			s.Undated++
			continue
		}
		modified, sane := protocol.SaneModified(t, r.at, protocol.DateLimits{})
		if !sane || r.at.Sub(modified) < 2*time.Second {
			s.Undated++
			continue
		}
		headers = append(headers, protocol.Date{Time: modified})
		switch span := max(l.modified.Span, 24*time.Hour); {
		case l.modified.Time.IsZero():
		case l.modified.Time.Sub(modified) > span:
			s.Later++
		case modified.Sub(l.modified.Time) > span:
			s.Earlier++
		default:
			s.Agree++
		}
	}
	if t, err := http.ParseTime(a.report.Page.LastModified); err == nil && a.report.Page.Date == "" {
		headers = append(headers, protocol.Date{Time: t})
	}
	if len(headers) >= 3 {
		a.measured.take("the Last-Modified of a few pages", trust.Unproved, headers, a.p.now())
	}
	return nil
}

// sitemapAgain asks for the sitemap again: whether it knows 304, and
// whether its dates move although nothing else does.
func (a *run) sitemapAgain(ctx context.Context) error {
	if a.sitemap == nil {
		return nil
	}
	i := slices.IndexFunc(a.report.Sitemaps, func(s Sitemap) bool { return s.URL == a.sitemap.url })
	if i < 0 {
		return nil
	}
	var err error
	a.report.Sitemaps[i].NotModified, err = a.conditional(ctx, a.sitemap, "*/*")
	return err
}

// datesReport judges the dates of one document.
func datesReport(name string, dates []protocol.Date, read time.Time) Dates {
	var d Dates
	for _, t := range dates {
		d.Entries++
		if t.Time.IsZero() {
			continue
		}
		d.Dated++
		if sane, ok := protocol.SaneModified(t.Time, read, protocol.DateLimits{}); ok && sane.After(d.Newest) {
			d.Newest = sane.UTC()
		}
	}
	judge := trust.Dates{Name: name}
	judge.Census(dates, read, protocol.DateLimits{})
	d.worth = judge.Worth()
	switch {
	case d.Dated == 0:
		d.Verdict = "none"
	case d.worth == trust.Unproved && d.Dated >= 10:
		d.Verdict = "plausible"
	default:
		d.Verdict = d.worth.String()
	}
	return d
}
