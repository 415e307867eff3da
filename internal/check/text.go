package check

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteText writes the report for people, in lines of about 100 characters.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s: %s", short(r.Target), r.Kind)
	if r.Kind != kindRobots {
		fmt.Fprintf(b, ", %s", plural(r.Entries, "entry", "entries"))
	}
	if r.Sampled > 0 {
		fmt.Fprintf(b, "; %s fetched", plural(r.Sampled, "page", "pages"))
	}
	fmt.Fprintln(b)
	for _, f := range r.Findings {
		fmt.Fprintf(b, "\n%-7s  %s", f.Severity, f.Rule)
		if f.Where != "" && f.Where != r.Target {
			fmt.Fprintf(b, "  (%s)", short(f.Where))
		}
		fmt.Fprintln(b)
		paragraph(b, "        ", upper(f.Message)+".")
		paragraph(b, "  costs ", upper(f.Cost)+".")
		paragraph(b, "  fix   ", upper(f.Fix)+".")
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(b, "No problems found.")
	} else {
		fmt.Fprintf(b, "\n%s, %s, %s.\n", plural(r.Count(Error), "error", "errors"), plural(r.Count(Warning), "warning", "warnings"), plural(r.Count(Note), "note", "notes"))
	}
	return b.Flush()
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// upper capitalizes the first letter, unless the first word is a name.
func upper(s string) string {
	if first, _, _ := strings.Cut(s, " "); s == "" || strings.ContainsAny(first, ".:-") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// paragraph writes a text broken into lines, the first one after head and the others
// indented below it.
func paragraph(w io.Writer, head, text string) {
	const width = 100
	line := head
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(w, line)
			line, empty = strings.Repeat(" ", len(head)), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(w, line)
}
