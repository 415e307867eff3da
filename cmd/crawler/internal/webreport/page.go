package webreport

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/parleyweb/parley/internal/chart"
)

//go:embed page.css
var style string

// A view is what a report shows: the tables of a collection, and those of another one to compare it with.
type view struct {
	Name, Other    string
	tables, others tables // others is nil if there is none
	csv            bool   // all rows are in files
}

// chapters returns the sections for which there are tables.
func (v *view) chapters() (list []chapter) {
	for _, c := range allChapters() {
		c.List = slices.DeleteFunc(c.List, func(s section) bool { return v.tables.table(s.tables[0]).Columns == nil })
		for i := range c.List {
			c.List[i].onPage = &onPage{view: v}
			c.List[i].Thesis = unbroken(c.List[i].Thesis)
		}
		if len(c.List) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// ID returns the name of the first table.
func (s section) ID() string { return s.tables[0] }

// A paragraph is what a section says about a collection; a single one needs no name.
type paragraph struct{ Name, Text string }

// unbroken keeps numbers and their percent signs on one line.
func unbroken(text string) string { return strings.ReplaceAll(text, " %", "\u00a0%") }

// Says returns a paragraph for each collection.
func (s section) Says() (list []paragraph) {
	for _, from := range s.view.sources(s.ID()) {
		text := strings.Join(slices.Compact(s.says(from.tables)), " ")
		list = append(list, paragraph{plain(from.name), unbroken(text)})
	}
	return list
}

const (
	mostRows  = 40 // of a table on the page, but for the summary
	shortRows = 12 // a longer table is folded away
)

// A shownTable is the beginning of a table.
type shownTable struct {
	table
	More string
}

// Long reports whether the table is folded away.
func (t shownTable) Long() bool { return len(t.Rows) > shortRows }

// Paired reports whether the only table has room beside the drawing, on a wide screen.
func (s section) Paired() bool {
	return s.Drawing != "" && len(s.Tables) == 1 && !s.Tables[0].Long() && len(s.Tables[0].Columns) <= 4
}

// shown returns the tables that have rows.
func (s section) shown() (list []shownTable) {
	for _, name := range s.tables {
		t := shownTable{table: s.view.joined(s.view.tables.table(name))}
		if n := len(t.Rows) - mostRows; n > 0 && name != "summary" {
			t.Rows = t.Rows[:mostRows]
			if t.More = fmt.Sprintf("%s more in %s.csv", group(float64(n)), t.Name); !s.view.csv {
				t.More += ", which --csv writes"
			}
		}
		if len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

// show formats a cell for people.
func show(cell any) string {
	switch x := cell.(type) {
	case string:
		return plain(x)
	case nil:
		return ""
	}
	return short(number(cell))
}

// class returns the attribute of cells with text.
func class(cell any) g.Node {
	_, text := cell.(string)
	return g.If(text, h.Class("text"))
}

// A tile is one of the numbers at the top of the page.
type tile struct{ Value, Name, Note string }

func (v *view) tiles() (list []tile) {
	ts := v.tables
	add := func(value float64, noun, note string, args ...any) {
		number, name, _ := strings.Cut(many(value, noun), " ")
		list = append(list, tile{number, name, fmt.Sprintf(note, args...)})
	}
	add(ts.figure("pages"), "page", "of %s known", many(ts.figure("known URLs"), "URL"))
	each := ts.figure("pages of a site")
	add(ts.figure("sites"), "site", "%s a site", short(each)+strings.TrimPrefix(many(each, "page"), group(each)))
	add(ts.figure("links"), "link", "%s a page", short(ts.figure("mean links of a page")))
	bytes, unit, _ := strings.Cut(Size(ts.figure("bytes")), " ")
	return append(list, tile{bytes, unit, Size(ts.figure("mean bytes of a page")) + " a page"})
}

// writeHTML writes the page.
func (v *view) writeHTML(w io.Writer) error {
	chapters := v.chapters()
	for _, c := range chapters {
		for i := range c.List {
			s := &c.List[i]
			s.Tables = s.shown()
			if s.draw != nil {
				s.Drawing = s.draw(v, s.Title, "d-"+s.ID())
			}
		}
	}
	about := "The collection " + plain(v.Name)
	if v.Other != "" {
		about += ", compared with " + plain(v.Other)
	}
	newest := strings.NewReplacer("T", " ", "Z", " UTC").Replace(cellText(v.tables.table("summary").find("value", "newest visit")))
	return chart.WriteDocument(w, "What a crawl has found: "+plain(v.Name), style,
		h.Header(
			h.H1(g.Text("What a crawl has found")),
			h.P(h.Class("soft"), g.Text(about), g.If(newest != "", g.Group{g.Text("; newest visit "), h.Time(g.Text(newest))}),
				g.Text(". Beside the figures stand those of Castillo's thesis, of the Web of Chile in 2004.")),
			h.Ul(h.Class("figures"), g.Map(v.tiles(), func(t tile) g.Node {
				return h.Li(h.B(g.Text(t.Value)), h.Span(h.Class("name"), g.Text(t.Name)), h.Span(g.Text(t.Note)))
			}))),
		h.Nav(h.Aria("label", "Contents"), h.Ul(g.Map(chapters, chapter.entry))),
		h.Main(g.Map(chapters, func(c chapter) g.Node {
			return h.Section(h.ID(c.id()), h.H2(g.Text(c.Title)), g.Map(c.List, section.article))
		})),
		h.Footer(g.Text("Made by "), h.Code(g.Text("crawler report")), g.Text(". The same collection gives the same page.")))
}

func (c chapter) id() string { return "c-" + c.List[0].ID() }

// entry returns the chapter's entry of the contents.
func (c chapter) entry() g.Node {
	entry := g.Group{h.A(h.Href("#"+c.id()), g.Text(c.Title)), g.Text(" ")}
	for i, s := range c.List {
		entry = append(entry, g.If(i > 0, g.Text(" · ")), h.A(h.Href("#"+s.ID()), g.Text(s.Title)))
	}
	return h.Li(entry)
}

// article shows the section.
func (s section) article() g.Node {
	empty := s.Drawing == "" && len(s.Tables) == 0 // it has sentences alone
	list := g.Group{h.ID(s.ID()), g.If(empty, h.Class("none")), h.H3(g.Text(s.Title))}
	for _, p := range s.Says() {
		list = append(list, h.P(g.If(p.Name != "", g.Group{h.B(g.Text(p.Name + ":")), g.Text(" ")}), g.Text(p.Text)))
	}
	if !empty && s.Thesis != "" {
		list = append(list, h.P(h.Class("thesis"), g.Text("The thesis: "+s.Thesis+".")))
	}
	var shown g.Group
	if s.Drawing != "" {
		shown = append(shown, h.Figure(g.Raw(s.Drawing)))
	}
	for _, t := range s.Tables {
		if t.Long() {
			shown = append(shown, h.Details(h.Summary(g.Text("Table "+t.Name)), t.node()))
		} else {
			shown = append(shown, t.node())
		}
	}
	if s.Paired() {
		return h.Article(list, h.Div(h.Class("pair"), shown))
	}
	return h.Article(list, shown)
}

// node shows the table.
func (t shownTable) node() g.Node {
	head := g.Group{}
	for i, name := range t.Columns {
		head = append(head, h.Th(h.Scope("col"), class(t.Rows[0][i]), g.Text(plain(strings.ReplaceAll(name, "_", " ")))))
	}
	return g.Group{
		h.Div(h.Class("wide"), h.TabIndex("0"), h.Role("group"), h.Aria("label", "Table "+t.Name), h.Table(
			h.Caption(g.Textf("%s (%s)", t.Name, t.Source)),
			h.THead(h.Tr(head)),
			h.TBody(g.Map(t.Rows, func(cells []any) g.Node {
				row := g.Group{h.Th(h.Scope("row"), class(cells[0]), g.Text(show(cells[0])))}
				for _, x := range cells[1:] {
					row = append(row, h.Td(class(x), g.Text(show(x))))
				}
				return h.Tr(row)
			})))),
		g.If(t.More != "", h.P(h.Class("soft"), g.Text("… "+t.More))),
	}
}
