package catalog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// A Fetch says how a Catalog fetches the pages of its own site. The Catalog then publishes what it found:
// digest, length, media type, and the page's features. A page is published once it has been fetched; one that
// answers 404 or 410 does not exist, whatever a source says; one that redirects is left out.
//
// A page is fetched when it is new, when a source's entry for it has changed, and when its last check is
// longer than Recheck ago: pages never fetched alternate with those longest unchecked. Requests carry the
// validators of the last response, which are stored in the journal, so that most checks cost the site a 304.
//
// While Watch runs it fetches beside the scans, and a published page must answer twice that it does not
// exist. Otherwise, and for the first description of a site, a scan fetches before it begins, for as long as
// Budget: the remaining pages wait for the next scan.
type Fetch struct {
	// Rate is the most pages fetched per second. Zero means 2.
	Rate float64

	// MaxBytes is the size in bytes beyond which a page is left out. Zero means 16 MB.
	MaxBytes int64

	// Timeout bounds the time for one page. Zero means 20 s.
	Timeout time.Duration

	// Recheck is the longest time between two checks of a page. Zero means a day.
	Recheck time.Duration

	// Budget is how long one scan may fetch. Zero means a minute.
	Budget time.Duration

	// Client fetches, without following redirects. Nil means http.DefaultClient.
	Client *http.Client

	// Features, if not nil, extracts a page's features, as Site.Features does.
	Features func(url string, page []byte, whole bool) (inventory.Features, error)
}

// featuresSize is how many bytes of a page are searched for features.
const featuresSize = 2 << 20

// An answer is the result of fetching a page.
type answer struct {
	offer   inventory.Offer // with LeftOut, or Digest and Stamp
	was     string          // stamp of the published entry when it was fetched
	err     error           // fs.ErrNotExist if the page is not there
	retry   time.Duration
	trouble bool // err concerns the server, not this page
}

// failed reports whether a has no result.
func (a *answer) failed() bool { return a.err != nil && !errors.Is(a.err, fs.ErrNotExist) }

// fetchMark begins the stamp of a fetched page. It is followed by the claim that the page was fetched for,
// the time of the check, and its validators.
const fetchMark = "parley/fetched:"

type fetchStamp struct {
	claim   claim
	checked int64 // Unix seconds
	fetch.Validators
}

func (s fetchStamp) append(b []byte) []byte {
	b = append(append(b, fetchMark...), s.claim[:]...)
	b = strconv.AppendInt(b, s.checked, 36)
	return append(append(b, '\n'), keepValidators(s.Validators)...)
}

func parseFetchStamp(b string) (s fetchStamp, ok bool) {
	b, ok = strings.CutPrefix(b, fetchMark)
	if !ok || len(b) < claimSize {
		return s, false
	}
	copy(s.claim[:], b)
	checked, rest, ok := strings.Cut(b[claimSize:], "\n")
	n, err := strconv.ParseInt(checked, 36, 64)
	s.checked, s.Validators = n, parseValidators(rest)
	return s, ok && err == nil
}

// fetch requests a page that a source describes by o and c.
func (f *fetcher) fetch(ctx context.Context, o inventory.Offer, c claim) answer {
	known, v := f.known(o.URL)
	if known.err != nil {
		return known
	}
	a := f.ask(ctx, o, c, known, v)
	a.was = known.was
	return a
}

func (f *fetcher) ask(ctx context.Context, o inventory.Offer, c claim, known answer, was fetch.Validators) answer {
	header := was.Header()
	header.Set("Accept", "*/*")
	resp, err := f.client.Get(ctx, o.URL, header)
	if err != nil {
		return answer{err: err, trouble: true}
	}
	defer resp.Close()
	now := f.catalog.now()
	stamp := fetchStamp{c, now.Unix(), fetch.ValidatorsOf(resp.Header)}
	switch code := resp.Status; {
	case code == http.StatusNotModified && was != (fetch.Validators{}):
		if stamp.Validators == (fetch.Validators{}) {
			stamp.Validators = was
		}
		known.offer.Stamp = stamp.append(nil)
		if html.RobotsTag(resp.Header["X-Robots-Tag"], "").NoIndex {
			known.offer.LeftOut = leftNoIndex
		}
		return known
	case code == http.StatusNotFound || code == http.StatusGone:
		return answer{err: fmt.Errorf("%s: %w", resp.Says(), fs.ErrNotExist)}
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		o.LeftOut = leftRedirects
		return answer{offer: o}
	case code != http.StatusOK:
		retry, _ := fetch.RetryAfter(resp.Header, now, time.Hour)
		return answer{err: errors.New(resp.Says()), retry: retry, trouble: code >= 500 || code == http.StatusTooManyRequests}
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return answer{err: fmt.Errorf("unexpected content coding %.40q", coding)}
	}
	return f.body(o, resp, stamp, now)
}

// known returns the published entry of a page as an answer, and the validators for a conditional request, empty
// if the page must be read in any case.
func (f *fetcher) known(url string) (a answer, v fetch.Validators) {
	e, ok, err := f.catalog.Journal.Get(url)
	a = answer{was: string(e.Stamp), err: err, trouble: err != nil}
	stamp, fetched := parseFetchStamp(a.was)
	if it := e.Item; err == nil && ok && fetched && !it.Digest.IsZero() {
		v = stamp.Validators
		a.offer = inventory.Offer{URL: url, Place: f.catalog.site.border.place(url), Modified: it.Modified, Span: it.Span, Length: it.Length,
			Type: it.Type, Title: it.Title, Digest: it.Digest, Language: it.Language, Canonical: it.Canonical, Text: it.Text, Sketch: e.Sketch}
	}
	return a, v
}

// body reads a response into an answer.
func (f *fetcher) body(o inventory.Offer, resp *fetch.Answer, stamp fetchStamp, now time.Time) answer {
	if t := mediaType(resp.Header.Get("Content-Type")); t != "" {
		o.Type = t
	}
	if o.Modified.IsZero() {
		o.Modified, o.Span = lastModified(resp.Header, now), 0
	}
	if html.RobotsTag(resp.Header["X-Robots-Tag"], "").NoIndex {
		o.LeftOut = leftNoIndex
		return answer{offer: o}
	}
	if resp.Length > f.opts.MaxBytes {
		o.LeftOut = leftLarge
		return answer{offer: o}
	}
	hash, head := sha256.New(), headKeeper{}
	isRead := f.opts.Features != nil && isHTML(o.Type)
	w := io.Writer(hash)
	if isRead {
		w = io.MultiWriter(hash, &head)
	}
	n, err := io.Copy(w, resp)
	if err != nil {
		return answer{err: err, trouble: true}
	}
	if resp.Cut() {
		o.LeftOut = leftLarge
		return answer{offer: o}
	}
	o.Length = n
	hash.Sum(o.Digest[:0])
	o.Stamp = stamp.append(nil)
	if !isRead {
		return answer{offer: o}
	}
	page, err := f.opts.Features(o.URL, head.b, int64(len(head.b)) == n)
	if err != nil {
		return answer{err: fmt.Errorf("features: %w", err)}
	}
	if page.NoIndex {
		o.LeftOut = leftNoIndex
	}
	if page.Title != "" {
		o.Title = oneLine(page.Title, maxTitle)
	}
	if page.Language != "" {
		o.Language = page.Language
	}
	if page.Canonical != "" {
		o.Canonical = page.Canonical
	}
	o.Text, o.Sketch = page.Text, page.Sketch
	return answer{offer: o}
}

// A headKeeper is a writer that keeps the first bytes.
type headKeeper struct{ b []byte }

func (h *headKeeper) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), featuresSize-len(h.b))]...)
	return len(p), nil
}

// lastModified returns the Last-Modified header, or the zero time if it is of no use. Programs that generate
// pages often state the time of generation, which says nothing about the page.
func lastModified(h http.Header, now time.Time) time.Time {
	t, err := http.ParseTime(h.Get("Last-Modified"))
	if err != nil {
		return time.Time{}
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		date = now
	}
	if d := date.Sub(t); d < 2*time.Second {
		return time.Time{}
	}
	t, _ = protocol.SaneModified(t, now, protocol.DateLimits{})
	return t
}
