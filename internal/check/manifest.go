package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/parleyweb/parley/internal/xmlpull"
	"github.com/parleyweb/parley/protocol"
)

// The namespaces of RSS 1.0, of what is used in it, and of Parley.
const (
	nsRDF    = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	nsRSS    = "http://purl.org/rss/1.0/"
	nsDC     = "http://purl.org/dc/elements/1.1/"
	nsTerms  = "http://purl.org/dc/terms/"
	nsAtom   = "http://www.w3.org/2005/Atom"
	nsParley = "urn:parley:1#"
)

// manifest checks a robots.rdf, or another RSS 1.0. Two readers read it at the same
// time: one as a crawler does, and one that checks the markup.
func (x *run) manifest(ctx context.Context, d *document, r io.Reader) error {
	pr, pw := io.Pipe()
	w := &markupChecker{violations: violations{}}
	done := make(chan error)
	go func() {
		err := w.read(pr)
		io.Copy(io.Discard, pr) // so that the other reader never blocks
		done <- err
	}()
	var size counting
	read := io.TeeReader(r, io.MultiWriter(pw, &size))
	head, err := x.items(ctx, d, read)
	if err == nil {
		_, err = io.Copy(io.Discard, read) // the rest after the end of the document
	}
	pw.Close()
	strict := <-done
	d.bytes = int64(size)

	x.report.Kind = "RSS 1.0"
	if w.parley {
		x.report.Kind = "robots.rdf"
	}
	if head.Whole != nil {
		x.report.Kind = "robots.rdf in parts"
	}
	w.finish(d)
	if !w.parley { // a news feed is ordered newest first, and needs only one date per item
		delete(x.violations, "order")
		delete(w.violations, "one-date")
	}
	maps.Copy(x.violations, w.violations)
	x.judge(d)
	switch {
	case errors.Is(err, protocol.ErrTruncated):
		x.violate("count", d.place, fmt.Sprintf("%s items, %s declared", number(w.items), number(head.Items)))
		return nil
	case err != nil:
		return err
	case strict != nil && ctx.Err() == nil:
		return strict
	case !w.channel && w.items == 0 && w.violations["namespace"] == nil:
		return errUnknown{"RDF, but neither robots.rdf nor RSS 1.0"}
	case d.entries == 0:
		x.violate("no-entries", d.place, "")
	case w.channel && w.listed != w.items && x.violations["namespace"] == nil:
		h := x.violate("rss-seq", d.place, fmt.Sprintf("%s in rdf:Seq, %s items", number(w.listed), number(w.items)))
		h.count = max(w.listed-w.items, w.items-w.listed)
	}
	return ctx.Err()
}

// items reads a manifest as a crawler does.
func (x *run) items(ctx context.Context, d *document, r io.Reader) (protocol.Manifest, error) {
	mr := protocol.NewManifestReader(r, protocol.ManifestOptions{URL: d.url, MaxItems: maxEntries, MaxBytes: maxAnswer})
	last := ""
	for n := 0; ; n++ {
		rec, err := mr.Next()
		parted := mr.Head().Whole != nil
		if parted && err == io.EOF {
			return mr.Head(), x.parted(ctx, d, mr.Head())
		}
		if err != nil {
			if skipped, first := mr.Skipped(); skipped > 0 {
				for _, e := range first {
					rule := "bad-url"
					if strings.HasSuffix(e.Error(), "the same URL again") {
						rule = "duplicate"
					}
					x.violate(rule, d.place, short(e.Error()))
				}
				if h := x.violations["bad-url"]; h != nil {
					h.count += skipped - len(first) // assume that the others have the same cause
				}
			}
			if err == io.EOF {
				err = nil
			}
			return mr.Head(), err
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return mr.Head(), ctx.Err()
		}
		if parted {
			continue // the parts have it too
		}
		if rec.Gone != nil {
			x.gone.add(rec.Gone.URL)
			if x.urls.has(rec.Gone.URL) {
				x.violateURL("gone-and-listed", rec.Gone.URL)
			}
			continue
		}
		it := rec.Item
		if x.gone.has(it.URL) {
			x.violateURL("gone-and-listed", it.URL)
		}
		if last != "" && protocol.Compare(last, it.URL) > 0 {
			x.violate("order", it.URL, short(it.URL)+" after "+short(last))
		}
		last = it.URL
		x.item(ctx, d, &it)
	}
}

func (x *run) item(ctx context.Context, d *document, it *protocol.Item) {
	x.entry(ctx, d, entry{url: it.URL, modified: it.Modified, span: it.Span, length: it.Length, digest: it.Digest})
}

// markupChecker checks the markup of a manifest. It is for one goroutine.
type markupChecker struct {
	violations
	x *xmlpull.Reader

	channel bool
	parley  bool // it has an element of our namespace
	items   int
	listed  int // in rdf:Seq

	item markupItem // the current one
	in   string     // "item", "channel", "gone", or empty
	buf  []byte
}

// A markupItem has the properties of an item, or of the channel or a tombstone.
type markupItem struct {
	about                           string
	title, link, date, terms, dcMod bool
}

func (w *markupChecker) hit(rule, eg string) *violation {
	line := fmt.Sprintf("line %d", w.x.Line())
	return w.violate(rule, line, short(eg)+" in "+line)
}

// read reads a document to its end.
func (w *markupChecker) read(r io.Reader) error {
	w.x = xmlpull.NewReader(r, xmlpull.Limits{})
	depth, begun := 0, false
	for {
		k, err := w.x.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case k == xmlpull.End:
			if depth--; depth == 1 {
				w.leave()
			}
			continue
		case k != xmlpull.Start:
			continue
		}
		depth++
		if !begun {
			begun = true
			if space := string(w.x.Space()); space != nsRDF {
				w.namespace(fmt.Sprintf("the root is in %q", short(space)), `write xmlns:rdf="`+nsRDF+`" in its root`)
			}
			continue
		}
		switch {
		case depth == 2:
			w.enter()
		case depth == 3 && w.in != "":
			if err := w.property(); err != nil {
				return err
			}
			depth-- // property has read its end
		}
	}
}

func (w *markupChecker) namespace(eg, fix string) {
	w.hit("namespace", eg).fixed = fix
}

// enter handles the start of a child of the root.
func (w *markupChecker) enter() {
	w.in = ""
	local, space := string(w.x.Local()), string(w.x.Space())
	switch {
	case w.x.Is(nsRSS, "item"):
		w.in = "item"
		w.items++
	case w.x.Is(nsRSS, "channel"):
		w.in, w.channel = "channel", true
	case w.x.Is(nsParley, "Tombstone"):
		w.in, w.parley = "gone", true
	case local == "item" || local == "channel":
		w.namespace(fmt.Sprintf("%s in %q", local, short(space)), `write xmlns="`+nsRSS+`" in its root`)
		return
	default:
		return
	}
	w.item = markupItem{about: w.rdfAttribute("about")}
}

// rdfAttribute returns an RDF attribute, and records if it has no prefix.
func (w *markupChecker) rdfAttribute(local string) string {
	if v, ok := w.x.Attr(nsRDF, local); ok {
		return string(v)
	}
	v, ok := w.x.Attr("", local)
	if ok {
		w.hit("rdf-attribute", local+"="+string(v[:min(len(v), 200)]))
	}
	return string(v)
}

// property reads a child of an item, the channel or a tombstone to its end. For the
// table of contents it calls contents.
func (w *markupChecker) property() error {
	space, local := string(w.x.Space()), string(w.x.Local())
	if space == nsParley {
		w.parley = true
	}
	if w.in == "channel" && space == nsRSS && local == "items" {
		return w.contents()
	}
	var ok func(string) bool
	switch space + local {
	case nsRSS + "title":
		w.item.title = true
	case nsRSS + "link":
		w.item.link = true
	case nsDC + "date":
		w.item.date, ok = true, isW3CDate
	case nsTerms + "modified":
		w.item.terms, ok = true, isW3CDate
	case nsDC + "modified":
		w.item.dcMod, ok = true, isW3CDate
		w.hit("dc-modified", w.item.about)
	case nsTerms + "extent", nsParley + "seq", nsParley + "items":
		ok = isNumber
	case nsParley + "digest", nsParley + "text":
		ok = isDigest
	case nsTerms + "isReplacedBy", nsParley + "stream", nsParley + "changes":
		w.rdfAttribute("resource")
	}
	if ok == nil {
		return w.x.Skip()
	}
	var err error
	if w.buf, err = w.x.Content(w.buf[:0]); err != nil {
		return err
	}
	if s := strings.TrimSpace(string(w.buf)); !ok(s) {
		rule := "rdf-value"
		if strings.HasPrefix(space+local, nsDC) || local == "modified" {
			rule = "bad-date"
		}
		w.hit(rule, fmt.Sprintf("%s %q", local, short(s)))
	}
	return nil
}

// contents reads the channel's table of contents to its end.
func (w *markupChecker) contents() error {
	for depth := 1; depth > 0; {
		k, err := w.x.Next()
		if err != nil {
			return err
		}
		switch k {
		case xmlpull.Start:
			depth++
			if w.x.Is(nsRDF, "li") {
				w.listed++
				w.rdfAttribute("resource")
			}
		case xmlpull.End:
			depth--
		}
	}
	return nil
}

// leave handles the end of a child of the root.
func (w *markupChecker) leave() {
	if w.in == "item" {
		if !w.item.title || !w.item.link {
			w.hit("rss-incomplete", w.item.about)
		}
		if w.item.date != w.item.terms && !w.item.dcMod {
			w.hit("one-date", w.item.about)
		}
	}
	w.in = ""
}

func (w *markupChecker) finish(d *document) {
	if !w.channel && w.items > 0 {
		w.violate("no-channel", d.place, "")
	}
	w.outOf(w.items, "rss-incomplete", "one-date")
}

func isNumber(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

func isDigest(s string) bool {
	_, err := protocol.ParseDigest(s)
	return err == nil
}
