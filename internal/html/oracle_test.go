package html_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	xhtml "golang.org/x/net/html"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/machine"
)

// The oracle has the definition of the main text walk the tree that a parser
// for browsers makes.

const (
	oracleBlocks = " address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure footer form" +
		" h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol optgroup option p plaintext pre search section summary" +
		" table tbody tfoot thead tr ul xmp "
	oracleUnread = " aside button datalist iframe nav noembed noframes noscript script select style svg template textarea title "
)

func among(list, word string) bool { return strings.Contains(list, " "+word+" ") }

type treeText struct {
	text [3]strings.Builder // of the body, of articles, of mains
}

func (o *treeText) walk(n *xhtml.Node, at int, pre bool) {
	all := func(s string) {
		for i := range o.text {
			o.text[i].WriteString(s)
		}
	}
	switch n.Type {
	case xhtml.TextNode:
		s := n.Data
		if !pre {
			s = strings.ReplaceAll(s, "\n", " ")
		}
		s = strings.Map(func(r rune) rune {
			if r != '\n' && (unicode.IsSpace(r) || unicode.IsControl(r)) {
				return ' '
			}
			return r
		}, s)
		for i := range o.text[:at+1] { // what is in a main is in the body, too
			o.text[i].WriteString(s)
		}
		return
	case xhtml.DocumentNode:
	case xhtml.ElementNode:
		role, hidden := "", false
		for _, a := range n.Attr {
			switch {
			case a.Key == "role":
				role, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(a.Val)), " ")
			case a.Key == "hidden":
				hidden = !strings.EqualFold(a.Val, "until-found")
			case a.Key == "alt" && n.Data == "img":
				defer o.walk(&xhtml.Node{Type: xhtml.TextNode, Data: a.Val}, at, false)
			}
		}
		banner := n.Data == "header" || n.Data == "footer" || role == "banner" || role == "contentinfo"
		if among(oracleBlocks, n.Data) && n.Namespace == "" {
			all("\n")
			defer all("\n")
		} else if n.Data == "td" || n.Data == "th" {
			all(" ")
			defer all(" ")
		}
		if hidden || among(oracleUnread, n.Data) || role != "" && among(" navigation complementary search ", role) || banner && at == 0 {
			return
		}
		switch {
		case n.Data == "main" || role == "main":
			at = 2
		case n.Data == "article" || role == "article":
			at = max(at, 1)
		}
		pre = pre || among(" listing plaintext pre xmp ", n.Data)
	default:
		return
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		o.walk(c, at, pre)
	}
}

func oracleText(t *testing.T, page string) string {
	doc, err := xhtml.Parse(strings.NewReader(strings.TrimPrefix(page, "\uFEFF")))
	if err != nil {
		t.Logf("the parser gives up: %v", err)
		return ""
	}
	var o treeText
	o.walk(doc, 0, false)
	for i := 2; i >= 0; i-- {
		var lines []string
		for line := range strings.SplitSeq(o.text[i].String(), "\n") {
			if words := strings.Fields(line); len(words) > 0 {
				lines = append(lines, strings.Join(words, " "))
			}
		}
		if len(lines) > 0 {
			return strings.Join(lines, "\n")
		}
	}
	return ""
}

func same(r rune) rune { return r } // and what is not UTF-8 becomes U+FFFD

// One pass over the tokens finds the same text as the tree of a parser.
func TestRealPagesAgainstParser(t *testing.T) {
	n, size, differ := 0, 0, 0
	for path, b := range machine.Pages(t, machine.GitDoc(t)) {
		if len(b) > 2<<20 {
			continue
		}
		if testing.Short() && n >= 50 {
			break
		}
		n, size = n+1, size+len(b)
		got := strings.Map(same, string(html.Read("https://example.org/", b, html.Options{Text: true}).Text))
		want := strings.Map(same, oracleText(t, string(b)))
		if got != want {
			if differ++; differ <= 20 {
				i := 0
				for i < min(len(got), len(want)) && got[i] == want[i] {
					i++
				}
				i = max(0, i-40)
				t.Errorf("%s: read\n%.200q\nof the tree\n%.200q", path, got[i:], want[i:])
			}
		}
	}
	t.Logf("%d pages of %d MB: %d differ", n, size>>20, differ)
}

// A gardener grows valid pages at random: what may be left out, such as the
// end of a paragraph, is left out now and then.
type gardener struct {
	*rand.Rand
	b strings.Builder
}

func (g *gardener) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *gardener) open(name string) {
	g.b.WriteString("<" + name)
	if g.IntN(8) == 0 {
		g.b.WriteString(g.one(" hidden", " hidden=''", " HIDDEN", " hidden=until-found", " role=main", " role=navigation", " role=banner", " role=article",
			" role=contentinfo", " role=search", " role=button", " class=hidden", " title='role main hidden'"))
	}
	g.b.WriteString(">")
}

func (g *gardener) end(name string, optional bool) {
	if !optional || g.IntN(2) == 0 {
		g.b.WriteString("</" + name + ">")
	}
}

func (g *gardener) inline(depth int) {
	for range 1 + g.IntN(3) {
		switch n := g.IntN(16); {
		case n < 8 || depth == 0:
			g.b.WriteString(g.one("word", " ", "two words ", "\n", "&amp;", "é", "&nbsp;", ".", "日本"))
		case n < 12:
			e := g.one("b", "span", "em", "code", "my-element")
			g.open(e)
			g.inline(depth - 1)
			g.end(e, false)
		default:
			g.b.WriteString(g.one("<br>", "<img alt='a  picture'>", "<img>", "<wbr>", "<svg><g><title>t</title><path/></g>x</svg>", "<script>if (a<b) '<p>'</script>",
				"<select><option>o<option>p</select>", "<textarea><p></textarea>", "<button>b</button>", "<!-- <p> -->", "<input>", "<noscript><p></noscript>",
				"<iframe><p></iframe>", "<template><p>t</p></template>"))
		}
	}
}

func (g *gardener) blocks(depth int) {
	for range 1 + g.IntN(4) {
		switch n := g.IntN(16); {
		case n < 4 || depth == 0:
			g.open("p")
			g.inline(2)
			g.end("p", true)
		case n < 5:
			g.inline(2)
		case n < 6:
			e := g.one("h1", "h2", "pre", "address")
			g.open(e)
			g.inline(2)
			g.end(e, false)
		case n < 8:
			list := g.one("ul", "ol", "menu")
			g.open(list)
			for range 1 + g.IntN(3) {
				g.open("li")
				g.blocks(depth - 1)
				g.end("li", true)
			}
			g.end(list, false)
		case n < 9:
			g.open("dl")
			for range 1 + g.IntN(3) {
				e := g.one("dt", "dd")
				g.open(e)
				g.inline(2)
				g.end(e, true)
			}
			g.end("dl", false)
		case n < 11:
			g.open("table")
			for range 1 + g.IntN(3) {
				g.open("tr")
				for range 1 + g.IntN(3) {
					e := g.one("td", "th")
					g.open(e)
					g.blocks(depth - 1)
					g.end(e, true)
				}
				g.end("tr", true)
			}
			g.end("table", false)
		default:
			e := g.one("div", "div", "section", "blockquote", "nav", "aside", "header", "footer", "article", "main", "form", "figure", "details")
			if e == "form" && strings.Contains(g.b.String(), "<form") {
				e = "div" // forms do not nest
			}
			g.open(e)
			g.blocks(depth - 1)
			g.end(e, false)
		}
	}
}

func TestGeneratedPagesAgainstParser(t *testing.T) {
	n := 3000
	if testing.Short() {
		n = 300
	}
	ranks := map[int]int{}
	for seed := range n {
		g := &gardener{Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		g.b.WriteString("<!DOCTYPE html><title>t</title>")
		g.open("body")
		g.blocks(1 + seed%4)
		page := g.b.String()
		got := string(html.Read(at, []byte(page), html.Options{Text: true}).Text)
		if want := oracleText(t, page); got != want {
			t.Fatalf("seed %d:\n%.2000s\n got %.500q\nwant %.500q", seed, page, got, want)
		}
		ranks[min(len(got), 1)]++
	}
	if ranks[1] < n/2 {
		t.Errorf("only %d of %d pages have a text", ranks[1], n)
	}
}
