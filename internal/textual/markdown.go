package textual

import (
	"bytes"
	"cmp"
	"net/url"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// markdown returns the main text of a page in UTF-8 as Markdown. It returns false if the page would cost the
// converter too much.
func (r *Reader) markdown(pageURL string, page []byte) (string, bool) {
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return "", false
	}
	p := &pruner{base: baseOf(doc, pageURL), links: cmp.Or(max(r.MaxText, 0), DefaultMaxText)}
	root := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	for _, part := range mainPart(doc) {
		p.prune(root, part, surroundings{})
	}
	p.close()
	if !p.words {
		return "", true
	}
	if p.ahead > maxAhead {
		return "", false
	}
	r.once.Do(func() {
		r.converter = converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(),
			commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)), // it writes THE END between lists: words that the page does not have
			table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal), table.WithHeaderPromotion(true))))
	})
	out, err := r.converter.ConvertNode(root)
	return string(out), err == nil
}

// baseOf returns the base of a page's references: its own URL, or its first <base>.
func baseOf(doc *html.Node, pageURL string) *url.URL {
	page, err := url.Parse(pageURL)
	if err != nil {
		return nil
	}
	var find func(n *html.Node) string
	find = func(n *html.Node) string {
		if n.DataAtom == atom.Base {
			if href := attribute(n, "href"); href != "" {
				return href
			}
		}
		if n.DataAtom == atom.Body {
			return ""
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if href := find(c); href != "" {
				return href
			}
		}
		return ""
	}
	if href := find(doc); href != "" && len(href) <= maxLink {
		if b, err := page.Parse(href); err == nil {
			return b
		}
	}
	return page
}
