package protocol

import (
	"errors"
	"fmt"
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

// readWhole reads p:whole to its end. Every part is parsed as a small tree; url is that of the manifest.
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
		case list != nil && !x.Is(nsParley, "Part"):
			depth++ // rdf:Seq, rdf:li
			continue
		case list == nil && x.Is(nsParley, "parts"):
			list, depth = &w.Parts, depth+1
			continue
		case list == nil && x.Is(nsParley, "changed"):
			list, depth = &w.Changed, depth+1
			continue
		case list != nil && len(w.Parts)+len(w.Changed) == MaxParts:
			return fmt.Errorf("more than %d parts: %w", MaxParts, ErrLimit)
		}
		el, _, err := x.element(maxHead)
		switch {
		case err != nil:
			return err
		case el == nil:
		case list != nil:
			p, err := readPart(el, url, list == &w.Changed)
			if err != nil {
				return err
			}
			*list = append(*list, p)
		case el.NamespaceURI() != nsParley:
		case el.Tag == "epoch":
			w.Cursor.Epoch = strings.TrimSpace(el.Text())
		case el.Tag == "seq":
			w.Cursor.Seq, seq = parseNumber([]byte(strings.TrimSpace(el.Text())))
		case el.Tag == "items":
			if n, ok := parseNumber([]byte(strings.TrimSpace(el.Text()))); ok && n <= math.MaxInt32 {
				w.Items = int(n)
			}
		}
	}
	if !seq {
		return errors.New("no p:seq")
	}
	return nil
}

// readPart reads a p:Part. One that lacks a property is refused: without it the rest of the index is worth nothing.
func readPart(el *etree.Element, url string, changed bool) (p Part, err error) {
	ref := rdfAttribute(el, "about")
	if p.URL, err = CanonicalURL(url, ref); err != nil {
		return p, err
	}
	numbers := map[string]uint64{}
	for _, c := range el.ChildElements() {
		text := strings.TrimSpace(c.Text())
		name := c.NamespaceURI() + " " + c.Tag
		if name == nsParley+" digest" {
			p.Digest, _ = parseDigest(text)
		}
		if n, ok := parseNumber([]byte(text)); ok && n <= math.MaxInt64 {
			numbers[name] = n
		}
	}
	number := func(name string) uint64 {
		n, ok := numbers[name]
		if !ok && err == nil {
			_, name, _ = strings.Cut(name, " ")
			err = fmt.Errorf("part %.200s without a number as its %s", p.URL, name)
		}
		return n
	}
	p.Seq = number(nsParley + " seq")
	p.Items = int(min(number(nsParley+" items"), math.MaxInt32))
	p.Length = int64(number(nsTerms + " extent"))
	if changed {
		p.After = number(nsParley + " after")
	}
	return p, err
}
