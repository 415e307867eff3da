package versions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/content"
)

// A Handler answers requests for the pages of a site (C05, C07): with the page,
// compressed, or ranges of it; with 304 if the client has it; and with the
// difference to a version that the client has, if the request names that version as
// in RFC 9842 (Available-Dictionary, and "dcz" in Accept-Encoding).
//
// The entity tag of a page is its digest in hexadecimal digits; that of an encoded
// page is followed by the name of the coding. A client that has a page in any
// coding has the page: each of these tags is answered with 304.
//
// It serves pages that the journal offers, Public allows, and Open opens. All others
// are 404, except for 410 and 308 if the journal remembers that a page is gone or has
// moved. The bytes have the digest in the journal. While a page is being changed, the
// Handler sends the version in the journal, or, if that is not stored, the current
// file without a validator or digest.
//
// Browsers use dictionaries only over HTTPS: the site's web server must speak it.
type Handler struct {
	Store   *Store
	Journal *server.Journal

	// Base is the site's base URL. A request for another host name is redirected to it, with the same path and
	// query; its port is ignored.
	Base string

	// Public reports whether a URL is public. Nil means that all are.
	Public func(url string) bool

	// CacheControl is the value of that header for a page. Empty leaves it out. A
	// browser uses a page as a dictionary only while its cache may use the page,
	// even if stale: "max-age=60, stale-while-revalidate=604800".
	CacheControl string

	// Expires predicts the next change of a page in that header, from the changes of the page that the journal remembers, at least
	// three. It is for crawlers, and no promise: with an empty CacheControl, the response tells caches to ask again after a minute
	// (max-age), which for them outranks Expires.
	Expires bool

	forecast forecast
	named    ways // that requests for Base's own name came; see foreign
}

const (
	// mostRanges bounds the ranges of one request. A request for more is sent the
	// whole page.
	mostRanges = 10

	// deltaPatience is how long a request waits for a difference before it gets the
	// whole page.
	deltaPatience = 2 * time.Second

	leastPacked = 256     // bytes: smaller pages are not compressed
	wholePage   = 4 << 20 // bytes: larger pages are not held in memory
)

// ServeHTTP answers a request for a page.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed)
		return
	}
	if h.Redirect(w, r) { // whether or not there is such a page
		return
	}
	page, ok := h.url(r)
	if !ok || h.Public != nil && !h.Public(page) {
		refuse(w, http.StatusNotFound)
		return
	}
	e, ok, err := h.Journal.Get(page)
	switch {
	case err != nil:
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable)
	case !ok:
		h.gone(w, page)
	case !e.Held.IsZero():
		refuse(w, http.StatusNotFound) // it was removed on purpose, even if a version is still stored
	default:
		h.page(w, r, &e.Item)
	}
}

// Redirect redirects a request for another host name than that of Base, and reports whether it did.
func (h *Handler) Redirect(w http.ResponseWriter, r *http.Request) bool {
	if !h.foreign(r) {
		return false
	}
	page, ok := h.url(r)
	if ok {
		w.Header().Set("Location", page)
		refuse(w, http.StatusPermanentRedirect)
	}
	return ok
}

// url returns the canonical URL of a request.
func (h *Handler) url(r *http.Request) (string, bool) {
	path := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	if !strings.HasPrefix(path, "/") || len(path) > protocol.MaxURL {
		return "", false
	}
	page, err := protocol.CanonicalURL(h.Base, protocol.Origin(h.Base)+path)
	return page, err == nil && strings.HasPrefix(page, h.Base)
}

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Del("Expires")
	w.Header().Del("Use-As-Dictionary")
	http.Error(w, http.StatusText(status), status)
}

// gone answers for a page that the journal does not offer.
func (h *Handler) gone(w http.ResponseWriter, page string) {
	t, ok, err := h.Journal.Gone(page)
	switch {
	case err != nil || !ok:
		refuse(w, http.StatusNotFound)
	case t.To != "" && (h.Public == nil || h.Public(t.To)):
		w.Header().Set("Location", t.To)
		refuse(w, http.StatusPermanentRedirect)
	default:
		refuse(w, http.StatusGone)
	}
}

func (h *Handler) page(w http.ResponseWriter, r *http.Request, it *protocol.Item) {
	a := &response{Handler: h, w: w, r: r, item: it, tag: hex.EncodeToString(it.Digest[:])}
	a.describe()
	if n := strings.Count(r.Header.Get("Range"), ","); n >= mostRanges || r.Method == http.MethodHead {
		r.Header.Del("Range")
	}
	switch {
	case it.Digest.IsZero():
		a.stranger()
	case a.held(), a.delta():
	case it.Length > wholePage:
		a.large()
	default:
		a.whole()
	}
}

// A response is the response to one request for a page that the journal offers.
type response struct {
	*Handler
	w    http.ResponseWriter
	r    *http.Request
	item *protocol.Item
	tag  string // of the page, without quotes
}

// describe sets the headers that do not depend on what is sent of the page.
func (a *response) describe() {
	head := a.w.Header()
	kind := a.item.Type
	if kind == "" {
		kind = "application/octet-stream"
	}
	head.Set("Content-Type", kind)
	head.Set("Vary", "Accept-Encoding, Available-Dictionary")
	control := a.CacheControl
	if a.Expires {
		if at := a.forecast.next(a.r.Context(), a.Journal, a.item.URL, time.Now()); !at.IsZero() {
			head.Set("Expires", at.UTC().Format(http.TimeFormat))
			control = cmp.Or(control, "max-age=60")
		}
	}
	if control != "" {
		head.Set("Cache-Control", control)
	}
	path := a.item.URL[len(protocol.Origin(a.item.URL)):]
	if a.item.Length <= coding.MaxDeltaBase && !strings.Contains(path, "?") {
		head.Set("Use-As-Dictionary", `match="`+literal(path)+`"`)
	}
}

// send sends the content with entity tag tag, or the requested ranges of it,
// subject to the conditions of the request.
func (a *response) send(tag, name string, content io.ReadSeeker, size int) {
	head := a.w.Header()
	head.Set("ETag", `"`+tag+`"`)
	if name != "" {
		head.Set("Content-Encoding", name)
		if a.r.Header.Get("Range") == "" {
			head.Set("Content-Length", strconv.Itoa(size)) // which ServeContent leaves out then
		}
	} else {
		d := a.item.Digest
		head.Set("Repr-Digest", d.String())
	}
	// A Last-Modified in the future, of a clock that was ahead, is not allowed (RFC
	// 9110, 8.8.2.1). Later versions would have the same one: only the tag tells them apart.
	modified := a.item.Modified.Truncate(time.Second)
	if modified.After(time.Now()) {
		modified = time.Time{}
	}
	http.ServeContent(a.w, a.r, "", modified, content)
}

// held answers a client that has the page in any coding with 304 and the tag that
// the client sent, provided that the page can be opened.
func (a *response) held() bool {
	tag, ok := heldTag(a.r.Header.Values("If-None-Match"), a.tag)
	if !ok {
		return false
	}
	if a.Store.Open != nil {
		f, ok := a.open()
		if !ok {
			return true
		}
		f.Close()
	}
	a.r.Header.Set("If-None-Match", `"`+tag+`"`)
	a.r.Header.Del("If-Match")
	a.r.Header.Del("If-Unmodified-Since")
	a.send(tag, "", bytes.NewReader(nil), 0)
	return true
}

// delta sends the difference to the version that the client has, if that is
// available. It sends no ranges of it: a later computation may give other bytes.
func (a *response) delta() bool {
	base, ok := dictionary(a.r.Header)
	if !ok || !coding.ParseAccept(a.r.Header.Values("Accept-Encoding")).Names("dcz") || a.r.Header.Get("Range") != "" {
		return false
	}
	ctx, cancel := context.WithTimeout(a.r.Context(), deltaPatience)
	defer cancel()
	delta, err := a.Store.Delta(ctx, a.item, base)
	if err != nil {
		return false
	}
	a.send(a.tag+"-dcz-"+hex.EncodeToString(base[:8]), "dcz", bytes.NewReader(delta), len(delta))
	return true
}

// whole sends a page from memory, compressed or not.
func (a *response) whole() {
	ctx := a.r.Context()
	page, err := a.Store.Page(ctx, a.item, a.Store.maxPage())
	switch {
	case errors.Is(err, content.ErrNoVersion):
		a.stranger()
		return
	case err != nil:
		refuse(a.w, http.StatusServiceUnavailable)
		return
	}
	tag, name, b := a.tag, "", page
	if len(page) >= leastPacked && packable(a.item.Type) {
		for _, n := range coding.ParseAccept(a.r.Header.Values("Accept-Encoding")).Order("zstd", "gzip") {
			// Ranges are of the plain page, unless If-Range continues a download in this coding.
			if a.r.Header.Get("Range") != "" && a.r.Header.Get("If-Range") != `"`+a.tag+"-"+n+`"` {
				continue
			}
			packed, err := a.Store.memory().packed(ctx, a.item.URL, a.item.Digest, page, n)
			if err != nil {
				refuse(a.w, http.StatusServiceUnavailable)
				return
			}
			if packed != nil {
				tag, name, b = a.tag+"-"+n, n, packed
				break
			}
		}
	}
	a.send(tag, name, bytes.NewReader(b), len(b))
}

// large sends a page from its file, so that a slow client does not hold memory.
func (a *response) large() {
	f, ok := a.open()
	if !ok {
		return
	}
	defer f.Close()
	if seeker, ok := f.(seekingFile); ok {
		is, err := a.Store.memory().isVersion(a.r.Context(), a.item, seeker)
		switch {
		case err != nil:
			refuse(a.w, http.StatusServiceUnavailable)
			return
		case is:
			a.send(a.tag, "", seeker, 0)
			return
		}
	}
	a.unsaid(f)
}

// stranger sends the current file, whose bytes the journal does not describe.
func (a *response) stranger() {
	if f, ok := a.open(); ok {
		defer f.Close()
		a.unsaid(f)
	}
}

// open opens the file. If it returns false, it has sent an error response.
func (a *response) open() (io.ReadCloser, bool) {
	f, err := a.Store.open(a.r.Context(), a.item.URL)
	switch {
	case err == nil && a.Store.Open != nil:
		return f, true
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		refuse(a.w, http.StatusNotFound)
	default:
		a.w.Header().Set("Retry-After", "10")
		refuse(a.w, http.StatusServiceUnavailable)
	}
	return nil, false
}

// unsaid sends a file with its media type, but without validators and digest.
func (a *response) unsaid(f io.Reader) {
	head := a.w.Header()
	head.Del("Expires")
	head.Del("Use-As-Dictionary")
	head.Set("Cache-Control", "no-cache")
	for _, name := range []string{"If-None-Match", "If-Match", "If-Unmodified-Since"} {
		a.r.Header.Del(name)
	}
	if seeker, ok := f.(io.ReadSeeker); ok {
		http.ServeContent(a.w, a.r, "", time.Time{}, seeker)
	} else if a.r.Method != http.MethodHead {
		io.Copy(a.w, f)
	}
}

// packable reports whether content of a media type is text that compresses well.
func packable(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "xml") || strings.HasSuffix(kind, "json") ||
		strings.HasSuffix(kind, "javascript") || kind == "image/svg+xml"
}

// heldTag returns the first entity tag in lists that is tag, the page's own, or
// that of one of its codings, without quotes; and false if there is none.
func heldTag(lists []string, tag string) (string, bool) {
	for _, list := range lists {
		for t := range strings.SplitSeq(list, ",") {
			t = strings.TrimPrefix(strings.TrimSpace(t), "W/")
			if len(t) < 2 || t[0] != '"' || t[len(t)-1] != '"' {
				continue
			}
			t = t[1 : len(t)-1]
			if rest, ok := strings.CutPrefix(t, tag); ok && (rest == "" || rest[0] == '-' && !strings.Contains(rest, `"`)) {
				return t, true
			}
		}
	}
	return "", false
}

// dictionary returns the digest in Available-Dictionary.
func dictionary(head http.Header) (d protocol.Digest, ok bool) {
	values := head.Values("Available-Dictionary")
	if len(values) != 1 {
		return d, false
	}
	text, ok1 := strings.CutPrefix(strings.TrimSpace(values[0]), ":")
	text, ok2 := strings.CutSuffix(text, ":")
	b, err := base64.StdEncoding.DecodeString(text)
	if !ok1 || !ok2 || err != nil || len(b) != len(d) {
		return d, false
	}
	copy(d[:], b)
	return d, true
}

// literal returns a pattern that only the given path of a URL matches, escaped for
// a string of a structured header field.
func literal(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '*', '(', ')', '{', '}', ':', '+', '\\':
			b.WriteString(`\\`)
			b.WriteByte(c)
		case '"':
			b.WriteString(`\"`)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
