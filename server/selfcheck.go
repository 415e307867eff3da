package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/inet"
	"github.com/parleyweb/parley/protocol"
)

// Bounds of a self-check.
const (
	checkPages   = 20
	checkWait    = 10 * time.Second // for one page
	checkAtOnce  = 4
	checkAnyBody = 100 << 20 // of a page of unknown length
)

// A Finding is a difference between what is published and what the web
// server returns, described for the person who runs the site.
type Finding struct {
	Problem string // such as "a page is not found"
	Cure    string // what to do about it
	URL     string // an example page
	Detail  string // about the example page
	Pages   int    // how many checked pages have it
	Of      int    // how many pages were checked
}

func (f Finding) String() string {
	return fmt.Sprintf("%d of %d pages: %s, such as %s (%s). %s", f.Pages, f.Of, f.Problem, f.URL, f.Detail, f.Cure)
}

// Checked is the result of a self-check.
type Checked struct {
	Findings []Finding `json:"findings"`
	Looked   int       `json:"looked"` // pages that were fetched
	Of       int       `json:"of"`     // pages of the site

	// Inside is a page that was answered from a loopback or private address: that
	// this machine gets it does not prove that other machines get it too. Empty if
	// there is none.
	Inside string `json:"inside,omitempty"`
}

// String describes the result: how much was checked, and what that cannot show.
func (c Checked) String() string {
	text := fmt.Sprintf("%d of %d pages were checked", c.Looked, c.Of)
	if len(c.Findings) == 0 {
		text += ", and the web server serves them as published"
	}
	if c.Inside != "" {
		text += "; responses come from a loopback or private address, such as for " + c.Inside + ": they cannot show whether the web server refuses clients at other addresses"
	}
	return text
}

// SelfCheck fetches up to n pages of the journal, spread over the site, as a
// crawler would, and checks that they exist, at their own URL, with the bytes
// that were published, not as application/octet-stream if they are HTML. Zero n means 20. Each page has a timeout of 10 s. c may be
// nil; redirects are not followed. A response through a proxy of c's Transport does not
// set Checked.Inside. Findings are ordered by how many pages they concern, most
// first. The error is about the journal or ctx.
func SelfCheck(ctx context.Context, j *Journal, c *http.Client, n int) (Checked, error) {
	var done Checked
	if n <= 0 {
		n = checkPages
	}
	items, err := sample(j, n)
	if err != nil {
		return done, fmt.Errorf("self-check: %w", err)
	}
	done.Looked, done.Of = len(items), j.Len()
	client := fetch.Client{Agent: "Parley self-check", Timeout: checkWait}
	if c != nil {
		client.Transport = c.Transport
	}
	results, inside := make([]*Finding, len(items)), make([]bool, len(items))
	var all sync.WaitGroup
	turn := make(chan struct{}, checkAtOnce)
	for i, it := range items {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			results[i], inside[i] = checkPage(ctx, client, j, it)
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return done, fmt.Errorf("self-check: %w", err)
	}
	if i := slices.Index(inside, true); i >= 0 {
		done.Inside = items[i].URL
	}
	var found []Finding
	for _, f := range results {
		if f == nil {
			continue
		}
		i := slices.IndexFunc(found, func(x Finding) bool { return x.Problem == f.Problem && x.Cure == f.Cure })
		if i < 0 {
			i, found = len(found), append(found, *f)
		}
		found[i].Pages++
		found[i].Of = len(items)
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(b.Pages, a.Pages) })
	done.Findings = found
	return done, nil
}

// sample picks up to n present items, spread evenly over the order of the site.
func sample(j *Journal, n int) ([]protocol.Item, error) {
	v, err := j.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	total := v.Len()
	n = min(n, total)
	var items []protocol.Item
	i := 0
	for e, err := range v.Entries() {
		if err != nil {
			return nil, err
		}
		// The first at or after each of n places; the next page replaces a held one.
		if len(items) < n && i >= len(items)*total/n && e.Held.IsZero() {
			items = append(items, e.Item)
		}
		i++
	}
	return items, nil
}

// checkPage returns what is wrong with a page, nil if nothing is, and whether
// the answer came from an address that may treat this machine specially.
func checkPage(ctx context.Context, c fetch.Client, j *Journal, it protocol.Item) (found *Finding, inside bool) {
	f := &Finding{URL: it.URL}
	if c.MaxBytes = it.Length + 1; it.Length < 0 {
		c.MaxBytes = checkAnyBody
	}
	a, err := c.Get(ctx, it.URL, http.Header{"Accept-Encoding": {"identity"}})
	if err != nil {
		return f.noAnswer(err), false
	}
	defer a.Close()
	inside = a.Remote.IsValid() && inet.Special(a.Remote) != "" && !proxied(c.Transport, it.URL)
	if !a.OK() {
		return f.status(a), inside
	}
	if it.Digest.IsZero() {
		return nil, inside
	}
	sum := sha256.New()
	got, err := io.Copy(sum, a)
	if err != nil {
		return f.noAnswer(err), inside
	}
	if !a.Cut() && protocol.Digest(sum.Sum(nil)) == it.Digest {
		return f.unnamed(a, it.Type), inside
	}
	if now, ok, err := j.Get(it.URL); err != nil || !ok || now.Item.Digest != it.Digest || !now.Held.IsZero() {
		return nil, inside // it is being changed
	}
	return f.altered(a, got, it.Length), inside
}

// proxied reports whether a URL is fetched through a proxy: then the address that answers is the proxy's.
func proxied(via http.RoundTripper, url string) bool {
	if via == nil {
		via = http.DefaultTransport
	}
	t, ok := via.(*http.Transport)
	if !ok || t.Proxy == nil {
		return false
	}
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	proxy, err := t.Proxy(r)
	return err == nil && proxy != nil
}

func (f *Finding) noAnswer(err error) *Finding {
	f.Detail = err.Error()
	if errors.Is(err, fetch.ErrTimeout) {
		f.Problem = "the web server does not answer within 10 s"
		f.Cure = "Check that the web server at --base runs and is not overloaded."
		return f
	}
	f.Problem, f.Cure = "the web server cannot be reached", "Check that the web server at --base runs, and that --base is right."
	return f
}

// status explains an answer that is not 200.
func (f *Finding) status(a *fetch.Answer) *Finding {
	f.Detail = "it answered " + a.Says()
	switch a.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return f.redirect(a)
	case http.StatusNotFound, http.StatusGone:
		f.Problem = "a page is not found"
		f.Cure = "Check that --docroot is the directory that the web server serves at --base; if it serves no URLs without .html, leave --clean-urls out."
	case http.StatusUnauthorized, http.StatusForbidden:
		f.Problem = "the web server refuses a page"
		f.Cure = "Pages that the public may not read must not be published: --exclude them or forbid them in robots.txt, or let the web server serve them."
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		f.Problem, f.Cure = "the web server is overloaded or limits requests", "Try again when it is less busy; check its rate limits."
	default:
		f.Problem, f.Cure = "the web server does not serve a page", "Check the web server's error log."
	}
	return f
}

// redirect explains why the published URL redirects to another one.
func (f *Finding) redirect(answer *fetch.Answer) *Finding {
	f.Problem = "the web server redirects"
	to, err := url.Parse(answer.Location)
	from, err2 := url.Parse(f.URL)
	if err != nil || err2 != nil || answer.Location == "" {
		f.Cure = "Let the web server serve published pages at their own URL."
		return f
	}
	f.Detail = "to " + to.String()
	a, b := from.Path, to.Path
	switch {
	case a == b && from.Host == to.Host && from.Scheme != to.Scheme:
		f.Problem, f.Cure = "the web server redirects to "+to.Scheme, "Publish with --base "+to.Scheme+"://"+to.Host+"/."
	case a == b && from.Host != to.Host:
		f.Problem, f.Cure = "the web server redirects to another host", "Publish with --base "+to.Scheme+"://"+to.Host+"/."
	case strings.TrimSuffix(a, ".html") == b, strings.TrimSuffix(a, ".html")+"/" == b, strings.TrimSuffix(a, ".htm") == b:
		f.Problem, f.Cure = "the web server redirects to the URL without .html", "Publish with --clean-urls."
	case a+".html" == b, a+".htm" == b, strings.TrimSuffix(a, "/")+".html" == b:
		f.Problem, f.Cure = "the web server redirects to the URL with .html", "Publish without --clean-urls."
	case a+"/" == b, strings.TrimSuffix(a, "/") == b:
		f.Problem, f.Cure = "the web server redirects because of the trailing slash", "Publish with --clean-urls, or let the web server serve both forms."
		if strings.HasSuffix(a, "/") {
			f.Cure = "Let the web server serve a directory's index at the URL that ends in a slash."
		}
	default:
		f.Cure = "Let the web server serve published pages at their own URL, or --exclude them."
	}
	return f
}

// unnamed returns f for a page that the web server sends without a proper media type, and otherwise nil.
func (f *Finding) unnamed(a *fetch.Answer, want string) *Finding {
	got, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || got != "application/octet-stream" || want != "text/html" && want != "application/xhtml+xml" {
		return nil
	}
	f.Problem, f.Detail = "a page is served as unknown bytes, which browsers save to disk", "Content-Type: "+got
	f.Cure = "Let the web server send " + want + ", or --exclude these files. Pages named by their language (page.html.en) are meant for Apache with MultiViews; nginx knows no type for them."
	return f
}

// altered explains bytes that differ from the published ones.
func (f *Finding) altered(a *fetch.Answer, got, want int64) *Finding {
	f.Problem = "the bytes are altered on the way"
	switch ce := a.Header.Get("Content-Encoding"); {
	case ce != "" && ce != "identity":
		f.Problem = "the web server compresses although it was asked not to"
		f.Detail = "Content-Encoding: " + ce
		f.Cure = "Let the web server obey Accept-Encoding: crawlers check pages by their digest."
		return f
	case want >= 0 && got > want:
		f.Detail = fmt.Sprintf("more than the %d bytes of the file", want)
	case want >= 0 && got < want:
		f.Detail = fmt.Sprintf("%d bytes instead of %d", got, want)
	default:
		f.Detail = fmt.Sprintf("%d bytes, as in the file, but different ones", got)
	}
	f.Cure = "Something between the file and the crawler rewrites pages: server-side includes, a CDN's minifier or script injection, or a --docroot that the web server does not serve. Switch it off for these pages, or publish its output."
	if via := cmp.Or(a.Header.Get("Cf-Ray"), a.Header.Get("Via")); via != "" {
		f.Detail += ", through a proxy"
	}
	return f
}
