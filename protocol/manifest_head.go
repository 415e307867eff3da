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

// readHead reads the channel to its end. It skips the table of contents, which
// grows with the number of items; every other child is parsed as a small tree.
func (r *ManifestReader) readHead() error {
	about, _ := r.rdfAttr("about")
	h := headDraft{m: &r.head}
	h.about, _ = canonicalURL(r.o.URL, string(about), "http", "https")
	for left := maxHead; ; {
		k, err := r.x.Next()
		if err != nil {
			return err
		}
		if k == xmlpull.End {
			break
		}
		if k != xmlpull.Start {
			continue
		}
		if r.x.Is(nsRSS, "items") {
			if r.headOnly && h.stated {
				h.finish() // the writer says nothing more after it
				return nil
			}
			if err := r.x.Skip(); err != nil {
				return err
			}
			continue
		}
		el, n, err := r.element(left)
		if err != nil {
			return fmt.Errorf("channel: %w", err)
		}
		left -= n
		if el != nil && !h.take(el, r.o.URL) {
			r.exts = append(r.exts, el)
		}
	}
	h.finish()
	return nil
}

// element reads the current element to its end as a tree of at most max
// bytes, and returns its size. The tree is nil if etree rejects it.
func (r *ManifestReader) element(max int) (*etree.Element, int, error) {
	b, err := r.x.Element(r.buf[:0], max)
	r.buf = b
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
		m.Stream, _ = canonicalURL(base, rdfResource(el), doorSchemes...)
	case nsParley + " changes":
		m.Changes, _ = canonicalURL(base, rdfResource(el), doorSchemes...)
	case nsParley + " discovery":
		m.Discovery, _ = canonicalURL(base, rdfResource(el), "http", "https")
	default:
		return false
	}
	return true
}

// rdfResource returns the rdf:resource attribute of a property.
func rdfResource(el *etree.Element) string {
	for _, a := range el.Attr {
		if uri := a.NamespaceURI(); a.Key == "resource" && (uri == nsRDF || uri == nsRDFLoose) {
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

func (h *headDraft) finish() {
	m := h.m
	if h.about != "" {
		m.URL = h.about
	}
	if m.Base = h.link; m.Base == "" {
		m.Base, _ = CanonicalURL(m.URL, "./") // figure 6.5 has nothing better
	}
	if validEpoch(h.epoch) && h.hasSeq {
		m.Cursor = Cursor{h.epoch, h.seq}
	}
	m.Complete = h.complete && m.Items >= 0
	m.headTexts()
}
