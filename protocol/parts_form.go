package protocol

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/parleyweb/parley/internal/xmlpull"
)

// element returns p:whole as a channel holds it, each part on a line of its own.
func (w *Whole) element() *etree.Element {
	whole := etree.NewElement("p:whole")
	whole.CreateAttr("rdf:parseType", "Resource")
	line := func(parent *etree.Element, depth int) *etree.Element {
		parent.CreateText("\n" + strings.Repeat("  ", depth))
		return parent
	}
	number := func(parent *etree.Element, name string, n uint64) {
		parent.CreateElement(name).SetText(strconv.FormatUint(n, 10))
	}
	line(whole, 3).CreateElement("p:epoch").SetText(w.Cursor.Epoch)
	number(line(whole, 3), "p:seq", w.Cursor.Seq)
	number(line(whole, 3), "p:items", uint64(w.Items))
	for _, list := range []struct {
		name  string
		parts []Part
	}{{"p:parts", w.Parts}, {"p:changed", w.Changed}} {
		outer := line(whole, 3).CreateElement(list.name)
		seq := line(outer, 4).CreateElement("rdf:Seq")
		for _, p := range list.parts {
			part := line(seq, 5).CreateElement("rdf:li").CreateElement("p:Part")
			part.CreateAttr("rdf:about", p.URL)
			if list.name == "p:changed" {
				number(part, "p:after", p.After)
			}
			number(part, "p:seq", p.Seq)
			number(part, "p:items", uint64(p.Items))
			number(part, "dcterms:extent", uint64(p.Length))
			part.CreateElement("p:digest").SetText(p.Digest.String())
		}
		line(seq, 4)
		line(outer, 3)
	}
	line(whole, 2)
	return whole
}

// whole writes what an index says of the whole site.
func (w *manifestWriter) whole(m *Manifest) error {
	if !m.Cursor.IsZero() || m.Complete {
		return errOwnCursor
	}
	if err := m.Whole.check(m.URL); err != nil {
		return fmt.Errorf("p:whole: %w", err)
	}
	b, err := etree.NewDocumentWithRoot(m.Whole.element()).WriteToBytes()
	if err != nil {
		return err
	}
	w.raw("    ")
	w.buf = append(append(w.buf, b...), '\n')
	return nil
}

var (
	errOwnCursor = errors.New("manifest with p:whole has a cursor of its own, or says that it is complete")
	errLongIndex = fmt.Errorf("index of more than %d bytes: %w", MaxIndex, ErrLimit)
)

// An indexWriter writes an index up to its bound.
type indexWriter struct {
	io.Writer
	left int
}

func (w *indexWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errLongIndex
	}
	return w.Writer.Write(b)
}

// readWhole reads p:whole to its end; url is that of the manifest.
func (h *headDraft) readWhole(x *document, url string) error {
	if h.whole != nil {
		return errors.New("there are two")
	}
	w := &Whole{Items: -1}
	h.whole = w
	var list *[]Part
	seq := false
	for depth := 1; depth > 0; {
		k, err := x.Next()
		if err != nil {
			return err
		}
		if x.Offset() > MaxIndex {
			return errLongIndex
		}
		if k == xmlpull.End {
			if depth--; depth == 1 {
				list = nil
			}
		}
		if k != xmlpull.Start {
			continue
		}
		switch {
		case list == nil && x.Is(nsParley, "parts"):
			list, depth = &w.Parts, depth+1
		case list == nil && x.Is(nsParley, "changed"):
			list, depth = &w.Changed, depth+1
		case list == nil:
			el, _, err := x.element(maxHead)
			if err != nil {
				return err
			}
			if el != nil && el.NamespaceURI() == nsParley {
				seq = w.property(el.Tag, strings.TrimSpace(el.Text())) || seq
			}
		case !x.Is(nsParley, "Part"):
			depth++ // rdf:Seq, rdf:li
		case len(w.Parts)+len(w.Changed) == maxParts:
			return fmt.Errorf("more than %d parts: %w", maxParts, ErrLimit)
		default:
			p, err := x.part(url, list == &w.Changed)
			if err != nil {
				return err
			}
			*list = append(*list, p)
		}
	}
	if !seq {
		return errors.New("no p:seq")
	}
	return nil
}

// property reads a property of p:whole, and reports whether it is its seq.
func (w *Whole) property(name, text string) (seq bool) {
	n, ok := parseNumber([]byte(text))
	switch {
	case name == "epoch":
		w.Cursor.Epoch = text
	case name == "seq" && ok:
		w.Cursor.Seq = n
		return true
	case name == "items" && ok && n <= math.MaxInt32:
		w.Items = int(n)
	}
	return false
}

// part reads a p:Part to its end. One that lacks a number is refused, since the index is of no use without it.
// An index may have many thousands, for which etree takes five times the time and eight times the memory.
func (x *document) part(url string, changed bool) (p Part, err error) {
	if p.URL, err = CanonicalURL(url, string(x.rdfAttr("about"))); err != nil {
		return p, err
	}
	items, length := uint64(0), uint64(0)
	numbers := []struct {
		space, name string
		to          *uint64
		read        bool
	}{{nsParley, "seq", &p.Seq, false}, {nsParley, "items", &items, false}, {nsTerms, "extent", &length, false}, {nsParley, "after", &p.After, !changed}}
	for {
		k, err := x.Tag()
		if err != nil {
			return p, err
		}
		if k == xmlpull.End {
			break
		}
		digest, at := x.Is(nsParley, "digest"), -1
		for i, n := range numbers {
			if x.Is(n.space, n.name) && (changed || n.to != &p.After) {
				at = i
			}
		}
		b, err := x.text()
		if err != nil {
			return p, err
		}
		if digest {
			p.Digest, _ = parseDigest(b)
		}
		if at >= 0 {
			n, ok := parseNumber(b)
			*numbers[at].to, numbers[at].read = n, ok
		}
	}
	for _, n := range numbers {
		if !n.read {
			return p, fmt.Errorf("part %.200s without a number as its %s", p.URL, n.name)
		}
	}
	p.Items, p.Length = int(min(items, math.MaxInt32)), int64(min(length, math.MaxInt64))
	return p, nil
}
