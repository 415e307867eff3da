package webreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/chart"
)

//go:embed page.html.tmpl
var pageTemplate string

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

// Empty reports whether a section has sentences alone.
func (s section) Empty() bool { return s.Drawing == "" && len(s.Tables) == 0 }

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
func class(cell any) template.HTMLAttr {
	if _, text := cell.(string); text {
		return `class="text"`
	}
	return ""
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
	t, err := template.New("report").Funcs(template.FuncMap{"show": show, "class": class, "head": func(column string) string { return plain(strings.ReplaceAll(column, "_", " ")) }}).Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("write report: %w", err) // the template is wrong
	}
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
	newest := strings.NewReplacer("T", " ", "Z", " UTC").Replace(cellText(v.tables.table("summary").find("value", "newest visit")))
	return t.Execute(w, struct {
		Style               template.CSS
		Name, Other, Newest string
		Tiles               []tile
		Chapters            []chapter
	}{chart.Style(), plain(v.Name), plain(v.Other), newest, v.tiles(), chapters})
}
