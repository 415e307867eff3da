package protocol

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/beevik/etree"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// maxHead bounds the channel without its table of contents, in bytes.
const maxHead = 256 << 10

// A channel is the head of a manifest, and what else stands in its element.
type channel struct {
	head Manifest
	exts []*etree.Element // that Parley does not know
	only bool             // nothing else is wanted, see ReadManifestHead
	read bool
}

// parse reads the channel to its end. It skips the table of contents, which
// grows with the number of items; every other child is parsed as a small tree.
// url is that of the manifest; origin, if set, is the only one allowed, with a slash.
func (c *channel) parse(x *document, url, origin string) error {
	c.read = true
	about := x.rdfAttr("about")
	h := headDraft{m: &c.head}
	h.about, _ = canonicalURL(url, string(about), "http", "https")
	for left := maxHead; ; {
		k, err := x.Tag()
		if err != nil {
			return err
		}
		if k == xmlpull.End {
			break
		}
		if x.Is(nsRSS, "items") {
			if c.only && h.stated {
				break // the writer says nothing more after it
			}
			if err := x.Skip(); err != nil {
				return err
			}
			continue
		}
		if x.Is(nsParley, "whole") {
			if err := h.readWhole(x, url); err != nil {
				return fmt.Errorf("p:whole: %w", err)
			}
			continue
		}
		el, n, err := x.element(left)
		if err != nil {
			return fmt.Errorf("channel: %w", err)
		}
		left -= n
		if el != nil && !h.take(el, url) {
			c.exts = append(c.exts, el)
		}
	}
	return h.finish(origin)
}

// element reads the current element to its end as a tree of at most max
// bytes, and returns its size. The tree is nil if etree rejects it.
func (x *document) element(max int) (*etree.Element, int, error) {
	b, err := x.Element(x.buf[:0], max)
	x.buf = b
	if err != nil {
		return nil, 0, err
	}
	doc := etree.NewDocument()
	doc.ReadSettings.MaxDepth = 64
	if err := doc.ReadFromBytes(b); err != nil {
		return nil, len(b), nil // still well-formed: xmlpull has checked it
	}
	return doc.Root(), len(b), nil
}

// A headDraft is a manifest's head while it is being read.
type headDraft struct {
	m     *Manifest
	about string
	link  string
	rank  int // of the date read so far
	epoch string
	seq   uint64
	hasSeq,
	complete,
	stated bool // p:complete was present
	whole *Whole
}

// take processes a child of the channel, and reports whether it is known.
func (h *headDraft) take(el *etree.Element, base string) bool {
	m, text := h.m, strings.TrimSpace(el.Text())
	switch el.NamespaceURI() + " " + el.Tag {
	case nsRSS + " title":
		m.Title = text
	case nsRSS + " description":
		m.Description = text
	case nsRSS + " link":
		h.link, _ = canonicalURL(base, text, "http", "https")
	case nsDC + " date":
		latest(&m.Modified, &h.rank, text, rankDate)
	case nsDC + " modified":
		latest(&m.Modified, &h.rank, text, rankDCModified)
	case nsTerms + " modified":
		latest(&m.Modified, &h.rank, text, rankModified)
	case nsParley + " epoch":
		h.epoch = text
	case nsParley + " seq":
		h.seq, h.hasSeq = parseNumber([]byte(text))
	case nsParley + " items":
		if n, ok := parseNumber([]byte(text)); ok && n <= math.MaxInt32 {
			m.Items = int(n)
		}
	case nsParley + " complete":
		h.complete, h.stated = text == "true", true
	case nsParley + " stream":
		m.Stream, _ = canonicalURL(base, rdfAttribute(el, "resource"), doorSchemes...)
	case nsParley + " changes":
		m.Changes, _ = canonicalURL(base, rdfAttribute(el, "resource"), doorSchemes...)
	case nsParley + " discovery":
		m.Discovery, _ = canonicalURL(base, rdfAttribute(el, "resource"), "http", "https")
	case nsTerms + " replaces":
		if u, err := canonicalURL(base, rdfAttribute(el, "resource"), "http", "https"); err == nil && len(m.Replaces) < maxReplaces {
			m.Replaces = append(m.Replaces, u)
		}
	default:
		return false
	}
	return true
}

// rdfAttribute returns an RDF attribute, whichever spelling of the namespace it has.
func rdfAttribute(el *etree.Element, local string) string {
	for _, a := range el.Attr {
		if uri := a.NamespaceURI(); a.Key == local && (uri == nsRDF || uri == nsRDFLoose) {
			return a.Value
		}
	}
	return ""
}

// latest stores a date if its rank is higher than that of the stored one.
func latest(t *time.Time, rank *int, text string, with int) {
	if d, ok := parseDate(text); ok && with > *rank {
		*t, *rank = d.Time, with
	}
}

func (h *headDraft) finish(origin string) error {
	m := h.m
	if h.about != "" {
		m.URL = h.about
	}
	if m.Base = h.link; m.Base == "" {
		m.Base, _ = CanonicalURL(m.URL, "./") // figure 6.5 has nothing better
	}
	if h.whole != nil && (h.complete || h.epoch != "" || h.hasSeq) {
		return errOwnCursor
	}
	if validEpoch(h.epoch) && h.hasSeq {
		m.Cursor = Cursor{h.epoch, h.seq}
	}
	m.Complete = h.complete && m.Items >= 0
	m.headTexts()
	switch {
	case h.whole == nil:
		return nil
	case !strings.HasPrefix(m.URL, origin):
		return fmt.Errorf("p:whole: the parts of %.200s are not of the origin %.200s", m.URL, origin)
	}
	if err := h.whole.check(m.URL); err != nil {
		return fmt.Errorf("p:whole: %w", err)
	}
	m.Whole = h.whole
	return nil
}
