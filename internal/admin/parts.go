package admin

import (
	"cmp"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// A Column is a column of a [Table].
type Column struct {
	Head    string
	Label   string // of its cells where the window is narrow; empty: Head
	Numbers bool
}

// Table returns a table of a list, nil if that is empty. Each row begins with what it is about. A table that may be wider than the window
// needs a name, for screen readers: then it can be scrolled with the keyboard.
func Table[R any](name string, columns []Column, list []R, row func(R) []g.Node) g.Node {
	if len(list) == 0 {
		return nil
	}
	class := func(c Column) g.Node { return g.If(c.Numbers, h.Class("n")) }
	return h.Div(h.Class("wide"), g.If(name != "", g.Group{h.TabIndex("0"), h.Role("group"), h.Aria("label", name)}),
		h.Table(h.Class("cards"),
			h.THead(h.Tr(g.Map(columns, func(c Column) g.Node { return h.Th(h.Scope("col"), class(c), g.Text(c.Head)) }))),
			h.TBody(g.Map(list, func(r R) g.Node {
				cells := row(r)
				cells[0] = h.Th(h.Scope("row"), cells[0])
				for i, c := range columns[1:] {
					cells[i+1] = h.Td(class(c), h.Data("label", cmp.Or(c.Label, c.Head)), cells[i+1])
				}
				return h.Tr(cells...)
			}))))
}

// Figures returns a list of figures.
func Figures(list ...g.Node) g.Node { return h.Dl(h.Class("figures"), g.Group(list)) }

// Figure returns one of [Figures], with a note below its value.
func Figure(name string, value g.Node, note ...g.Node) g.Node {
	return h.Div(h.Dt(g.Text(name)), h.Dd(value, g.If(note != nil, h.Small(note...))))
}

// Do returns a form that sends its fields to /do/TASK.
func Do(task string, fields ...g.Node) g.Node {
	return h.Form(h.Method("post"), h.Action("/do/"+task), g.Group(fields))
}

// Confirm returns a button for a task that takes a check of a box, too. Seen is what the task is about, as the page shows it.
func Confirm(task, seen, sure, button string) g.Node {
	return Do(task, h.Input(h.Type("hidden"), h.Name("seen"), h.Value(seen)),
		h.Label(h.Input(h.Type("checkbox"), h.Name("sure"), h.Value("yes"), h.Required()), g.Text(sure)), Button(button))
}

// Button returns the button of a form.
func Button(text string) g.Node { return h.Button(g.Text(text)) }

// Soft returns a paragraph that explains.
func Soft(text string) g.Node { return h.P(h.Class("soft"), g.Text(text)) }

// None returns a paragraph in the place of what a section does not have.
func None(text string) g.Node { return h.P(h.Class("none"), g.Text(text)) }
