package cel

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
)

// longestWords bounds an error message, in bytes.
const longestWords = 500

// explain returns the first error of an expression in one line, and what to write instead.
func explain(issues *cel.Issues) error {
	first := issues.Errors()[0]
	for _, e := range issues.Errors() { // by position: they are in the order in which they were found
		if l, f := e.Location, first.Location; l.Line() < f.Line() || l.Line() == f.Line() && l.Column() < f.Column() {
			first = e
		}
	}
	said, _, _ := strings.Cut(first.Message, "\n")
	if len(said) > longestWords {
		said = strings.ToValidUTF8(said[:longestWords], "") + "..."
	}
	said = strings.TrimPrefix(said, "Syntax error: ")
	said, _, _ = strings.Cut(said, " expecting ")
	line, column := first.Location.Line(), max(1, first.Location.Column()+1)
	at := fmt.Sprintf("at character %d", column)
	switch {
	case line < 1:
		at = "in the expression"
	case line > 1:
		at = fmt.Sprintf("in line %d at character %d", line, column)
	}
	if hint := hint(said); hint != "" {
		said += ": " + hint
	}
	return errors.New(at + ": " + said)
}

// hint suggests what to write instead.
func hint(said string) string {
	const syntax = `join parts by && and ||, compare by == != < <= > >= in, and put text in quotes`
	const tooLong = "write it in fewer parts, or use the parameters prefix, match and type"
	for _, known := range []struct{ part, hint string }{
		{"undefined field 'text'", "expressions cannot read the text of pages: use title, or send a program"},
		{"undefined field 'significance'", "write change.significance"},
		{"undefined field 'depth'", "write change.depth"},
		{"undefined field", "change has " + strings.Join(changeType.names(), ", ") + "; page has " + strings.Join(pageType.names(), ", ")},
		{"undeclared reference to 'now'", `there is no current time: write a time, as in change.at > timestamp("2026-11-21T00:00:00Z")`},
		{"undeclared reference", `use change and page, as in change.path.startsWith("/news/") and page.type == "text/html", and put text in quotes`},
		{"no matching overload", `both sides must be of one type, as in page.length < 1000, page.importance >= 0.5, change.at > timestamp("2026-11-21T00:00:00Z")`},
		{"'<EOF>'", "the expression is incomplete"},
		{"input", syntax},
		{"token recognition", syntax},
		{"invalid timestamp argument", "write a time as 2026-11-21T00:00:00Z"},
		{"recursion", tooLong}, {"nodes", tooLong}, {"code point", tooLong}, {"lookahead", tooLong},
	} {
		if strings.Contains(said, known.part) {
			return known.hint
		}
	}
	return ""
}
