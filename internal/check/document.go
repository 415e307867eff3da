package check

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/xmlpull"
	"github.com/parleyweb/parley/protocol"
)

// A document is a document while it is being read.
type document struct {
	place    string      // its URL, or the path of its file
	url      string      // canonical; empty if it is a file
	modified time.Time   // its Last-Modified, or mtime; zero if unknown
	header   http.Header // nil if it is a file
	beside   string      // directory of the file
	part     bool        // it is a sitemap of an index
	kind     string      // see kindOf

	bytes   int64 // read, uncompressed
	entries int
	dates   dates
	packed  *gzipMeter
}

func (d *document) origin() string { return protocol.Origin(d.url) }

func (d *document) originOr(other string) string {
	if d.url == "" {
		return other
	}
	return d.origin()
}

// checkURL checks the document at a canonical URL.
func (x *run) checkURL(ctx context.Context, url string) {
	ans, body := x.fetch(ctx, url, false)
	if ans == nil {
		return
	}
	d := newDocument(ans)
	err := x.read(ctx, d, body)
	body.Close()
	if err == nil {
		x.delivery(ctx, d, ans)
	}
}

func newDocument(ans *fetch.Answer) *document {
	d := &document{place: ans.URL, url: ans.URL, header: ans.Header}
	if t, err := http.ParseTime(ans.Header.Get("Last-Modified")); err == nil {
		d.modified = t
	}
	return d
}

// read reads a document of any kind. It returns an error if it did not reach the end.
func (x *run) read(ctx context.Context, d *document, r io.Reader) error {
	err := x.readKind(ctx, d, r)
	x.report.Bytes += d.bytes
	if err != nil && ctx.Err() == nil {
		x.broken(d, err)
	}
	return err
}

func (x *run) readKind(ctx context.Context, d *document, r io.Reader) error {
	z, err := coding.NewReader(pause.Reader(ctx, r))
	if err != nil {
		return err
	}
	defer z.Close()
	var all io.Reader = &limited{r: z, left: maxAnswer}
	if d.url != "" && !d.part {
		d.packed = newPacked()
		all = io.TeeReader(all, d.packed)
	}
	in := bufio.NewReaderSize(all, sniffed)
	head, err := in.Peek(sniffed)
	if err != nil && err != io.EOF {
		return err
	}
	var what string
	d.kind, what = kindOf(head, d.place)
	switch d.kind {
	case kindManifest:
		return x.manifest(ctx, d, in)
	case kindSitemap:
		return x.sitemap(ctx, d, in)
	case kindFeed:
		return x.feed(ctx, d, in)
	case kindRobots:
		return x.robotsText(ctx, d, in)
	case kindHTML:
		if name := challenge(d.header, head); name != "" {
			return errChallenge{name}
		}
		return errHTML
	}
	return errUnknown{what}
}

var errHTML = errors.New("it is HTML")

type errChallenge struct{ of string }

func (e errChallenge) Error() string { return "a bot challenge of " + e.of }

type errUnknown struct{ what string }

func (e errUnknown) Error() string { return e.what }

// broken records why a document was not read to its end.
func (x *run) broken(d *document, err error) {
	says := plainText(err)
	if d.part {
		says = d.place + ": " + says
	}
	var challenged errChallenge
	var unknown errUnknown
	var syntax *xmlpull.SyntaxError
	where := d.place
	if errors.As(err, &syntax) {
		where += ", " + strings.SplitN(syntax.Error(), ":", 2)[0]
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		x.violate("unreachable", where, "timed out before the whole document was received")
	case errors.As(err, new(*net.OpError)):
		x.violate("unreachable", where, says)
	case errors.As(err, &challenged):
		x.violate("challenge", where, challenged.of)
	case errors.Is(err, errHTML):
		if !d.part {
			x.report.Kind = kindHTML
		}
		rule := "html-instead"
		if isRobots(d.url) {
			rule = "robots-html"
		}
		x.violate(rule, where, says).fixed = x.listsOf(d)
	case errors.As(err, &unknown):
		if !d.part {
			x.report.Kind = "unknown"
		}
		x.violate("unknown-kind", where, says)
	case errors.Is(err, io.ErrUnexpectedEOF):
		x.violate("cut-short", where, says)
	case errors.Is(err, xmlpull.ErrLimit), errors.Is(err, errLimit):
		x.violate("over-limit", where, says)
	default:
		x.violate("malformed", where, says)
	}
}

// listsOf says where the lists of a document's site are: in its robots.txt, and at the first URLs that it names.
func (x *run) listsOf(d *document) string {
	if x.fetcher != nil {
		if r := x.fetcher.rules[d.origin()]; r != nil {
			list := slices.Concat([]string{d.origin() + "/robots.txt"}, r.file.Lines("manifest"), r.file.Lines("sitemap"))
			return short(strings.Join(list[:min(len(list), 4)], ", "))
		}
	}
	return "the site's robots.txt"
}

// plainText returns the text of an error, without the name of the document that readers prefix.
func plainText(err error) string {
	s := err.Error()
	for _, begin := range []string{"read manifest", "read sitemap", "read feed"} {
		if rest, ok := strings.CutPrefix(s, begin); ok {
			if strings.HasPrefix(rest, " ") { // and its URL, which has no ": " in it
				_, rest, _ = strings.Cut(rest, ": ")
			}
			s = strings.TrimPrefix(rest, ": ")
		}
	}
	return short(s)
}

var errLimit = errors.New("more than 1 GiB")

// limited is an io.LimitedReader whose end is an error.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLimit
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// mediaTypes are the media types that most readers accept for a kind of document.
var mediaTypes = map[string]string{
	kindManifest: "application/rdf+xml", kindSitemap: "application/xml", kindFeed: "application/rss+xml, application/atom+xml or application/feed+json",
	kindRobots: "text/plain",
}

// delivery checks the HTTP response of a document: type, compression, validators.
func (x *run) delivery(ctx context.Context, d *document, ans *fetch.Answer) {
	mt, _, _ := strings.Cut(strings.ToLower(d.header.Get("Content-Type")), ";")
	mt = strings.TrimSpace(mt)
	ok := strings.HasSuffix(mt, "/xml") || strings.HasSuffix(mt, "+xml") || strings.Contains(mt, "gzip") || strings.Contains(mt, "zstd")
	switch d.kind {
	case kindRobots:
		ok = mt == "text/plain"
	case kindFeed:
		ok = ok || strings.HasSuffix(mt, "json")
	case kindSitemap:
		ok = ok || mt == "text/plain"
	}
	if !ok {
		if mt == "" {
			mt = "an unknown type: there is no Content-Type"
		}
		x.violate("wrong-type", d.place, short(mt)).fixed = mediaTypes[d.kind]
	}
	if packed, ok := d.packed.size(); ok && !coded(d.header) && ans.Received >= d.bytes && d.bytes > 2000 && packed*10 < d.bytes*9 {
		x.violate("not-compressed", d.place, "").bytes = [2]int64{d.bytes, packed}
	}
	switch again, status := x.fetcher.again(ctx, ans); again {
	case noValidators:
		x.violate("no-validators", d.place, "").bytes[0] = ans.Received
	case sentAgain:
		x.violate("no-304", d.place, status).bytes[0] = ans.Received
	}
}

// The responses of a web server to a conditional request for what it has just sent.
const (
	notModified = iota
	noValidators
	sentAgain
	notKnown
)

// again repeats the request of a response, with its validators.
func (a *fetcher) again(ctx context.Context, ans *fetch.Answer) (int, string) {
	h := fetch.Validators{ETag: ans.Header.Get("ETag"), LastModified: ans.Header.Get("Last-Modified")}.Header()
	if len(h) == 0 {
		return noValidators, ""
	}
	second, body, err := a.get(ctx, askWait, ans.URL, h)
	if err != nil {
		return notKnown, ""
	}
	body.Close()
	switch {
	case second.Status == http.StatusNotModified:
		return notModified, ""
	case second.Status == http.StatusTooManyRequests, second.Status >= 500:
		return notKnown, ""
	}
	return sentAgain, second.Says()
}

// gzipMeter is a Writer that measures the gzip size of its input, up to maxPacked.
type gzipMeter struct {
	w    io.WriteCloser
	in   int64
	rest int64 // further input, which it did not compress
	out  counting
}

const maxPacked = 8 << 20

func newPacked() *gzipMeter {
	p := &gzipMeter{}
	p.w = coding.NewGzip(&p.out)
	return p
}

func (p *gzipMeter) Write(b []byte) (int, error) {
	if n := int64(len(b)); p.in < maxPacked {
		p.w.Write(b)
		p.in += n
	} else {
		p.rest += n
	}
	return len(b), nil
}

// size returns the gzip size; it extrapolates for input beyond maxPacked.
func (p *gzipMeter) size() (int64, bool) {
	if p.in == 0 || p.w.Close() != nil {
		return 0, false
	}
	out := int64(p.out)
	return out + p.rest*out/p.in, true
}

// counting is a Writer that counts bytes.
type counting int64

func (c *counting) Write(b []byte) (int, error) {
	*c += counting(len(b))
	return len(b), nil
}
