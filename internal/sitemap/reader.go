package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/xmlpull"
	"github.com/parleyweb/parley/protocol"
)

// Options configure a Reader. Zero values are useful.
type Options struct {
	// URL is the URL of the sitemap: relative URLs are resolved against it, and those of another origin are
	// marked as foreign. Empty means unknown.
	URL string

	// MaxBytes bounds the document, uncompressed. Zero means 1 GiB: many are longer than the protocol allows,
	// and still useful.
	MaxBytes int64

	// MaxEntries bounds its entries, skipped ones included. Zero means 10,000,000.
	MaxEntries int
}

const (
	maxBytesDefault   = 1 << 30
	maxEntriesDefault = 10_000_000

	keptErrors = 20
	keptLoc    = protocol.MaxURL + 1 // bytes of a RawLoc
	keptDate   = 100                 // bytes of a RawLastmod or RawPriority
)

// An Entry is one page of a sitemap, or one sitemap of an index.
type Entry struct {
	Loc string // as protocol.CanonicalURL writes it

	// Modified is when the page last changed, and Span the precision of that: see [protocol.Item]. Zero if
	// there is no date, or none that can be parsed. For a time without a zone the interval begins as in the
	// easternmost zone, and ends as in the westernmost.
	Modified time.Time
	Span     time.Duration

	RawLoc, RawLastmod, RawPriority string // as written, without white space around them

	Sitemap bool // it is a sitemap, not a page
	Foreign bool // its origin is not that of Options.URL, if that is known
}

// A Reader reads one document as a stream, in memory that does not depend on its length. The document must
// have no content coding.
//
// An entry without a URL, or with one that protocol.CanonicalURL rejects, is skipped and counted (see
// Skipped). Elements of other namespaces, of which there are many, are ignored. Duplicate URLs are not
// detected.
//
// It is not safe for concurrent use.
type Reader struct {
	o     Options
	err   error // final
	kind  Kind
	space string          // namespace of the root
	x     *xmlpull.Reader // nil for a text
	lines lines
	urls  urls
	raw   [3][]byte // of an element's loc, lastmod and priority

	entries int
	skipped int
	first   []error
}

// NewReader returns a Reader of the sitemap in r. It reads ahead.
func NewReader(r io.Reader, o Options) *Reader {
	if o.MaxBytes <= 0 {
		o.MaxBytes = maxBytesDefault
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = maxEntriesDefault
	}
	s := &Reader{o: o, lines: lines{in: bufio.NewReaderSize(r, 64<<10), left: o.MaxBytes}, urls: urls{base: o.URL}}
	if u, err := protocol.CanonicalURL("", o.URL); err == nil {
		s.urls.origin = protocol.Origin(u) + "/"
	}
	return s
}

// Kind returns the kind of the document. It is known once Next was called.
func (r *Reader) Kind() Kind { return r.kind }

// Space returns the namespace of the document's root. This Reader accepts any; others want [Namespace]. A
// text has none.
func (r *Reader) Space() string { return r.space }

// Bytes returns how many bytes of the document have been consumed.
func (r *Reader) Bytes() int64 {
	if r.x != nil {
		return r.x.Offset()
	}
	return r.o.MaxBytes - r.lines.left
}

// Skipped returns how many entries were skipped, and the reasons for the first 20.
func (r *Reader) Skipped() (n int, first []error) { return r.skipped, r.first }

// Next returns the next entry, and io.EOF after the last one of a complete document. Other errors wrap
// ErrHTML, ErrOther, ErrTruncated or ErrLimit if one of these is the cause. Errors are final.
func (r *Reader) Next() (Entry, error) {
	for r.err == nil {
		e, ok, err := r.step()
		switch {
		case err == io.EOF:
			r.err = io.EOF
		case err != nil:
			r.err = r.told(err)
		case ok:
			return e, nil
		}
	}
	return Entry{}, r.err
}

// step reads up to the next entry, and returns false for one that is unusable.
func (r *Reader) step() (e Entry, ok bool, err error) {
	if r.kind == Unknown {
		if err := r.begin(); err != nil {
			return e, false, err
		}
	}
	if r.x != nil {
		return r.element()
	}
	return r.line()
}

// told adds the name of the sitemap to an error.
func (r *Reader) told(err error) error {
	name := "sitemap"
	if r.o.URL != "" {
		name = fmt.Sprintf("sitemap %.200s", r.o.URL)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// begin detects the kind of the document.
func (r *Reader) begin() error {
	head, err := r.lines.in.Peek(4096)
	if len(head) == 0 && err != nil && err != io.EOF {
		return err
	}
	switch kind := sniff(head); kind {
	case "":
	case "html":
		return ErrHTML
	case "text":
		r.kind, r.urls.base = Text, "" // any word would be a URL
		return nil
	default:
		return fmt.Errorf("%w: %s", ErrOther, kind)
	}
	r.x = xmlpull.NewReader(r.lines.in, xmlpull.Limits{Bytes: r.o.MaxBytes})
	if _, err := r.x.Next(); err != nil {
		return err
	}
	r.space = string(r.x.Space()[:min(len(r.x.Space()), 200)])
	switch local := string(r.x.Local()); {
	case local == "urlset":
		r.kind = URLSet
	case local == "sitemapindex":
		r.kind = Index
	case strings.EqualFold(local, "html"):
		return ErrHTML
	default:
		return fmt.Errorf("%w: root element is %.80s, want urlset or sitemapindex", ErrOther, local)
	}
	return nil
}

// sniff detects by its beginning what a document is: "html", "text", a reason why it cannot be read, or the
// empty string for XML.
func sniff(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\x1f\x8b")):
		return "it is compressed"
	case len(bytes.TrimSpace(b)) == 0:
		return "it is empty"
	}
	b = bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF"))
	for {
		b = bytes.TrimLeft(b, " \t\r\n")
		var end string
		switch {
		case bytes.HasPrefix(b, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(b, []byte("<!--")):
			end = "-->"
		}
		i := bytes.Index(b, []byte(end))
		if end == "" || i < 0 {
			break
		}
		b = b[i+len(end):]
	}
	for _, begin := range []string{"<!doctype html", "<html", "<head", "<body", "<script", "<title", "<div", "<p>"} {
		if len(b) >= len(begin) && strings.EqualFold(string(b[:len(begin)]), begin) {
			return "html"
		}
	}
	for _, scheme := range []string{"http://", "https://"} {
		if len(b) >= len(scheme) && strings.EqualFold(string(b[:len(scheme)]), scheme) {
			return "text"
		}
	}
	if len(b) > 0 && b[0] != '<' && b[0] != 0xfe && b[0] != 0xff && !bytes.Contains(b[:min(len(b), 4)], []byte{0}) {
		return "it is neither XML nor a list of URLs"
	}
	return "" // the XML reader reports best what is not well-formed
}

// element reads up to the next entry, and returns false for one that is unusable.
func (r *Reader) element() (Entry, bool, error) {
	for {
		k, err := r.x.Tag()
		if err != nil {
			return Entry{}, false, err
		}
		if k != xmlpull.Start {
			continue
		}
		local := string(r.x.Local())
		if local != "url" && local != "sitemap" || !r.ours() {
			if err := r.x.Skip(); err != nil {
				return Entry{}, false, err
			}
			continue
		}
		if err := r.count(); err != nil {
			return Entry{}, false, err
		}
		return r.entry(local == "sitemap")
	}
}

// ours reports whether the current element is in the namespace of the root, or the right one.
func (r *Reader) ours() bool {
	s := string(r.x.Space())
	return s == r.space || s == Namespace
}

func (r *Reader) count() error {
	if r.entries++; r.entries > r.o.MaxEntries {
		return fmt.Errorf("more than %d entries: %w", r.o.MaxEntries, ErrLimit)
	}
	return nil
}

// entry reads an entry to its end.
func (r *Reader) entry(isSitemap bool) (Entry, bool, error) {
	loc, lastmod, priority := r.raw[0][:0], r.raw[1][:0], r.raw[2][:0]
	for {
		k, err := r.x.Tag()
		if err != nil {
			return Entry{}, false, err
		}
		if k == xmlpull.End {
			break // of the entry: those of its children are consumed with them
		}
		to := (*[]byte)(nil)
		if r.ours() {
			switch string(r.x.Local()) {
			case "loc":
				to = &loc
			case "lastmod":
				to = &lastmod
			case "priority":
				to = &priority
			}
		}
		if to == nil || len(*to) > 0 {
			err = r.x.Skip()
		} else {
			*to, err = r.x.Content(*to)
		}
		if err != nil {
			return Entry{}, false, err
		}
	}
	r.raw = [3][]byte{loc, lastmod, priority}
	return r.made(loc, lastmod, priority, isSitemap)
}

// made makes an entry of the raw values.
func (r *Reader) made(loc, lastmod, priority []byte, isSitemap bool) (Entry, bool, error) {
	loc, lastmod, priority = bytes.TrimSpace(loc), bytes.TrimSpace(lastmod), bytes.TrimSpace(priority)
	raw := string(loc[:min(len(loc), keptLoc)])
	url, err := r.urls.canonical(raw)
	if err != nil {
		r.skip(err)
		return Entry{}, false, nil
	}
	e := Entry{Loc: url, RawLoc: raw, Sitemap: isSitemap}
	e.Foreign = r.urls.origin != "" && !strings.HasPrefix(url, r.urls.origin)
	e.RawLastmod = string(lastmod[:min(len(lastmod), keptDate)])
	e.RawPriority = string(priority[:min(len(priority), keptDate)])
	e.Modified, e.Span = parseDate(e.RawLastmod)
	return e, true, nil
}

// urls are the URLs of a sitemap, of which most have the origin of the one before.
type urls struct {
	base   string // relative ones are resolved against it
	origin string // of Options.URL, with a slash
	last   string // origin of the last URL, with a slash
}

// canonical returns raw as protocol.CanonicalURL writes it. A plain URL of the last origin is canonical already,
// which is checked fast.
func (u *urls) canonical(raw string) (string, error) {
	if rest, ok := strings.CutPrefix(raw, u.last); ok && u.last != "" && plainPath(rest) {
		return raw, nil
	}
	if raw == "" {
		return "", errors.New("entry without a loc")
	}
	url, err := protocol.CanonicalURL(u.base, raw)
	if err == nil {
		u.last = protocol.Origin(url) + "/"
	}
	return url, err
}

// plainPath reports whether the part after the first slash of a path is certainly canonical.
func plainPath(s string) bool {
	if len(s) > protocol.MaxURL/2 {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '/':
		case c == '.' && i > 0 && s[i-1] != '/': // not of a dot segment
		default:
			return false
		}
	}
	return true
}

func (r *Reader) skip(err error) {
	r.skipped++
	if len(r.first) < keptErrors {
		line := r.lines.n
		if r.x != nil {
			line = r.x.Line()
		}
		r.first = append(r.first, fmt.Errorf("line %d: %w", line, err))
	}
}

// The extreme zones of the world: a time without a zone lies between them.
const (
	eastmost = 14 * time.Hour
	westmost = -12 * time.Hour
)

// parseDate parses a date of a sitemap: W3CDTF, or the same without a zone and perhaps with a space before
// the time, as many write it.
func parseDate(s string) (time.Time, time.Duration) {
	if s == "" {
		return time.Time{}, 0
	}
	d, err := protocol.ParseDate(s)
	if err == nil {
		return d.Time, d.Span
	}
	if len(s) > len("2006-01-02") && s[len("2006-01-02")] == ' ' {
		s = s[:len("2006-01-02")] + "T" + s[len("2006-01-02")+1:]
	}
	if d, err = protocol.ParseDate(s + "Z"); err != nil {
		return time.Time{}, 0
	}
	return d.Time.Add(-eastmost), d.Span + eastmost - westmost
}

// line reads the next line of a text, and returns false for one that is unusable.
func (r *Reader) line() (Entry, bool, error) {
	b, err := r.lines.next()
	if err != nil {
		return Entry{}, false, err
	}
	if b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF"))); len(b) == 0 {
		return Entry{}, false, nil
	}
	if err := r.count(); err != nil {
		return Entry{}, false, err
	}
	return r.made(b, nil, nil, false)
}

// lines are those of a text.
type lines struct {
	in   *bufio.Reader
	left int64 // bytes that may still be read
	n    int   // lines that were read
	buf  []byte
}

// next reads up to the end of a line, in any notation, and returns as much of it as a URL may be long and a
// little more.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	l.n++
	for n := 0; ; n++ {
		c, err := l.in.ReadByte()
		switch {
		case err == io.EOF && n > 0:
			return l.buf, nil
		case err != nil:
			return nil, err
		}
		if l.left--; l.left < 0 {
			l.left = 0
			return nil, fmt.Errorf("document too long: %w", ErrLimit)
		}
		if c == '\n' || c == '\r' {
			return l.buf, nil
		}
		if len(l.buf) < keptLoc+64 {
			l.buf = append(l.buf, c)
		}
	}
}
