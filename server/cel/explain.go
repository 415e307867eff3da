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
	switch {
	case strings.Contains(said, "undefined field 'text'"):
		return "expressions cannot read the text of pages: use title, or send a program"
	case strings.Contains(said, "undefined field 'significance'"):
		return "write change.significance"
	case strings.Contains(said, "undefined field 'depth'"):
		return "write change.depth"
	case strings.Contains(said, "undefined field"):
		return "change has " + strings.Join(changeType.names(), ", ") + "; page has " + strings.Join(pageType.names(), ", ")
	case strings.Contains(said, "undeclared reference to 'now'"):
		return `there is no current time: write a time, as in change.at > timestamp("2026-11-21T00:00:00Z")`
	case strings.Contains(said, "undeclared reference"):
		return `use change and page, as in change.path.startsWith("/news/") and page.type == "text/html", and put text in quotes`
	case strings.Contains(said, "no matching overload"):
		return `both sides must be of one type, as in page.length < 1000, page.importance >= 0.5, change.at > timestamp("2026-11-21T00:00:00Z")`
	case strings.Contains(said, "'<EOF>'"):
		return "the expression is incomplete"
	case strings.Contains(said, "input"), strings.Contains(said, "token recognition"):
		return `join parts by && and ||, compare by == != < <= > >= in, and put text in quotes`
	case strings.Contains(said, "invalid timestamp argument"):
		return "write a time as 2026-11-21T00:00:00Z"
	case strings.Contains(said, "recursion"), strings.Contains(said, "nodes"), strings.Contains(said, "code point"), strings.Contains(said, "lookahead"):
		return "write it in fewer parts, or use the parameters prefix, match and type"
	}
	return ""
}
