package check

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/protocol"
)

const (
	maxPage   = 4 << 20  // bytes of a page that are examined
	maxDigest = 64 << 20 // bytes of a page that are digested
)

// A sampler fetches some of the listed pages, and collects what is wrong with them. It is for one goroutine.
type sampler struct {
	*fetcher
	report *Report
	says   func(url string, page []byte) (noIndex bool, canonical string) // Checker.Page
	built  builtDates
}

// pages fetches the pages of the sample.
func (x *sampler) pages(ctx context.Context, list []pick) {
	slices.SortFunc(list, func(a, b pick) int { return protocol.Compare(a.url, b.url) })
	x.planned = x.done + 2*len(list) + 1
	fetched := ""
	for _, p := range list {
		if ctx.Err() != nil || x.violations["busy"] != nil {
			break
		}
		r := x.robots(ctx, protocol.Origin(p.url))
		if ctx.Err() != nil {
			break
		}
		if !x.allowed(r, p.url) {
			if r.got {
				x.violateURL("disallowed", p.url)
			}
			x.planned -= 2
			continue
		}
		x.report.Sampled++
		x.page(ctx, p.entry)
		fetched = p.url
	}
	x.soft404(ctx, fetched)
	for id, h := range x.violations {
		if strings.HasPrefix(id, "page-") || strings.HasPrefix(id, "redirect-") {
			h.of = x.report.Sampled
		}
	}
	for _, id := range []string{"page-no-304", "page-no-validators"} {
		if h := x.violations[id]; h != nil {
			h.bytes[0] /= int64(h.count)
			h.bytes[1] = h.bytes[0] * int64(x.report.Entries) * int64(h.count) / int64(h.of)
		}
	}
	x.built.finish(x.violations)
}

// soft404 requests a page that does not exist, in the directory of one that was fetched: sites differ in their answers by
// directory (P12).
func (x *sampler) soft404(ctx context.Context, beside string) {
	if beside == "" || ctx.Err() != nil || x.violations["busy"] != nil {
		return
	}
	beside, _, _ = strings.Cut(beside, "?")
	url := beside[:strings.LastIndexByte(beside, '/')+1] + strings.ToLower(rand.Text()) + ".html"
	if !x.allowed(x.robots(ctx, protocol.Origin(url)), url) {
		return
	}
	ans, body, err := x.get(ctx, askWait, url, nil)
	if err != nil {
		return
	}
	defer body.Close()
	head, _ := io.ReadAll(io.LimitReader(body, 64<<10))
	switch {
	case challenge(ans.Header, head) != "":
	case ans.Status == http.StatusOK:
		x.violate("soft-404", url, short(url)+" ("+ans.Says()+")")
	case location(ans) == protocol.Origin(url)+"/":
		x.violate("soft-404", url, short(url)+" redirects to the front page")
	}
}

// builtDates compares the date that most entries have, which may be that of the build, with the Last-Modified of their pages.
type builtDates struct {
	at, built    time.Time // see run
	dated, older int       // pages that the web server dates, and those that it dates earlier
	example      string    // the first of these
}

func (b *builtDates) add(ans *fetch.Answer, e entry) {
	t, err := http.ParseTime(ans.Header.Get("Last-Modified"))
	if _, sane := protocol.SaneModified(t, b.at, protocol.DateLimits{}); err != nil || !sane || b.built.IsZero() || e.modified.Sub(b.built).Abs() > buildSpan {
		return
	}
	b.dated++
	if e.modified.Sub(t) > buildSpan {
		if b.older == 0 {
			b.example = short(e.url) + " (" + protocol.FormatDate(t) + ")"
		}
		b.older++
	}
}

// finish decides between the two rules for equal dates.
func (b *builtDates) finish(v violations) {
	if b.older > 0 && b.older*2 >= b.dated {
		h := v["lastmod-alike"]
		delete(v, "lastmod-alike")
		h.fixed = fmt.Sprintf("the web server dates %s of %s fetched pages earlier, such as %s", number(b.older), number(b.dated), b.example)
		v["lastmod-build-time"] = h
	}
}

func (x *sampler) page(ctx context.Context, e entry) {
	ans, body, err := x.get(ctx, askWait, e.url, nil)
	var head []byte
	if err == nil {
		defer body.Close()
		head, err = io.ReadAll(io.LimitReader(body, maxPage))
	}
	eg := short(e.url)
	switch {
	case err != nil && ctx.Err() == nil:
		x.violate("page-unreachable", e.url, eg+" ("+short(err.Error())+")")
		return
	case ans == nil:
		return
	}
	if name := challenge(ans.Header, head); name != "" {
		x.violate("page-challenge", e.url, eg+" ("+name+")")
		return
	}
	if ans.Status != http.StatusOK {
		if rule := pageStatus(ans); rule != "" {
			if to := location(ans); to != "" {
				eg += " redirects to " + short(to)
			} else {
				eg += " (" + ans.Says() + ")"
			}
			x.violate(rule, e.url, eg)
		}
		return
	}
	isHTML := strings.Contains(ans.Header.Get("Content-Type"), "html") || looksLikeHTML(head)
	x.pageSays(ans, e, head, isHTML)
	x.built.add(ans, e)
	if err := x.digest(body, e, head); err != nil {
		return
	}
	switch again, _ := x.again(ctx, ans); again {
	case noValidators:
		x.violate("page-no-validators", e.url, eg).bytes[0] += ans.Received
	case sentAgain:
		x.violate("page-no-304", e.url, eg).bytes[0] += ans.Received
	}
	if isHTML && !coded(ans.Header) && len(head) > 2000 {
		p := newPacked()
		p.Write(head)
		if n, ok := p.size(); ok && n*10 < int64(len(head))*9 {
			h := x.violate("page-not-compressed", e.url, eg)
			h.bytes[0] += int64(len(head))
			h.bytes[1] += n
		}
	}
}

// pageStatus returns the rule that a response other than 200 breaks.
func pageStatus(ans *fetch.Answer) string {
	switch to := location(ans); {
	case to != "":
		return redirectRule(ans.URL, to)
	case ans.Status == http.StatusTooManyRequests, ans.Status == http.StatusServiceUnavailable:
		return "busy"
	case ans.Status == http.StatusNotFound, ans.Status == http.StatusGone:
		return "page-gone"
	case ans.Status >= 400 && ans.Status < 500:
		return "page-refused"
	}
	return "page-error"
}

// redirectRule returns the rule for a redirect, by how the two URLs differ.
func redirectRule(from, to string) string {
	a, err := neturl.Parse(from)
	b, err2 := neturl.Parse(to)
	if err != nil || err2 != nil {
		return "redirect-other"
	}
	stem := func(p string) string {
		p = strings.TrimSuffix(p, "/")
		for _, end := range []string{"/index.html", ".html", ".htm"} {
			p = strings.TrimSuffix(p, end)
		}
		return p
	}
	p, q := a.EscapedPath(), b.EscapedPath()
	switch {
	case stem(p) != stem(q) || a.RawQuery != b.RawQuery:
		return "redirect-other"
	case strings.TrimSuffix(p, "/") != strings.TrimSuffix(q, "/"):
		return "redirect-html"
	case a.Hostname() != b.Hostname():
		return "redirect-host"
	case a.Scheme != b.Scheme:
		return "redirect-https"
	case p != q:
		return "redirect-slash"
	}
	return "redirect-other"
}

// pageSays checks the noindex and the canonical URL that a page declares.
func (x *sampler) pageSays(ans *fetch.Answer, e entry, head []byte, isHTML bool) {
	noIndex, canonical := html.RobotsTag(ans.Header["X-Robots-Tag"], "").NoIndex, ""
	if isHTML && x.says != nil {
		says, other := x.says(ans.URL, head)
		noIndex, canonical = noIndex || says, other
	}
	if noIndex {
		x.violateURL("page-noindex", e.url)
	}
	if canonical != "" && canonical != e.url && !strings.HasPrefix(x.report.Kind, "robots.rdf") {
		x.violate("page-canonical", e.url, short(e.url)+" names "+short(canonical))
	}
}

// digest compares a page with its published digest. The error is about reading the page.
func (x *sampler) digest(body io.Reader, e entry, head []byte) error {
	if e.digest.IsZero() || e.length > maxDigest {
		return nil
	}
	sum := sha256.New()
	sum.Write(head)
	n, err := io.Copy(sum, io.LimitReader(body, maxDigest-int64(len(head))))
	switch {
	case err != nil:
		return err
	case int64(len(head))+n == maxDigest:
		return errors.New("too long")
	case protocol.Digest(sum.Sum(nil)) != e.digest:
		x.violateURL("page-bytes", e.url)
	}
	return nil
}
