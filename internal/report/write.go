package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/digits"
)

// count formats a number with separators: 12,345.
func count(n int64) string {
	return digits.Group(strconv.FormatInt(n, 10), ",")
}

// size formats a number of bytes with three or four digits: 12.3 MB.
func size(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	f, u := float64(n), 0
	for f >= 999.5 && u+1 < len(units) {
		f, u = f/1000, u+1
	}
	switch {
	case u == 0:
		return fmt.Sprintf("%d B", n)
	case f < 9.995:
		return fmt.Sprintf("%.2f %s", f, units[u])
	case f < 99.95:
		return fmt.Sprintf("%.1f %s", f, units[u])
	}
	return fmt.Sprintf("%.0f %s", f, units[u])
}

// percent formats a part of a whole: 12.3 %.
func percent(part, whole int64) string {
	switch {
	case whole == 0 || part == 0:
		return "-"
	case part*1000 < whole:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// many formats "1 file" and "2 files".
func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}

// plain makes text from a stranger fit to show: without control characters and characters that change the
// direction of writing, and with at most most runes.
func plain(s string, most int) string {
	var b strings.Builder
	n := 0
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		if n == most {
			return cutTail(b.String()) + "..."
		}
		if !strconv.IsPrint(c) {
			c = '\uFFFD'
		}
		b.WriteRune(c)
		n++
	}
	return b.String()
}

// cutTail removes the last three runes.
func cutTail(s string) string {
	for range 3 {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// span formats the time span of the report, and its zone.
func (r *Report) span() string {
	const form = "2 Jan 2006 15:04"
	zone := r.Zone
	if zone == "as logged" {
		zone = r.From.Format("-0700")
		if z := r.To.Format("-0700"); z != zone {
			zone += ", then " + z
		}
	}
	return r.From.Format(form) + " to " + r.To.Format(form) + " (" + zone + ")"
}

// source describes the log files.
func (l *Log) source() string {
	formats, files := []string{}, int64(0)
	name := ""
	for _, f := range l.Files {
		if f.Entries == 0 {
			continue
		}
		files++
		name = f.Name
		if !slices.Contains(formats, f.Format) {
			formats = append(formats, f.Format)
		}
	}
	if name = plain(name, 60); name == "-" {
		name = "standard input"
	}
	if files != 1 {
		name = many(files, "file", "files")
	}
	return name + " (" + strings.Join(formats, ", ") + ")"
}

// troubles returns the defects of the log that a reader must know before believing the rest.
func (l *Log) troubles() []string {
	var list []string
	for _, f := range l.Files {
		name := plain(f.Name, 60)
		switch {
		case f.Error != "":
			list = append(list, fmt.Sprintf("%s could not be read to its end (%s); counted: %s.", name, plain(f.Error, 80), many(f.Entries, "request", "requests")))
		case f.Twin != "":
			list = append(list, fmt.Sprintf("%s begins like %s, and was skipped as a copy.", name, plain(f.Twin, 60)))
		}
	}
	if l.Broken > 0 {
		list = append(list, fmt.Sprintf("%s of %s could not be read.", count(l.Broken), many(l.Lines, "line", "lines")))
		for _, e := range l.Examples {
			list = append(list, fmt.Sprintf("%s, line %d: %s: %s", plain(e.File, 60), e.Line, e.Why, plain(e.Text, 60)))
		}
	}
	if l.Cut > 0 {
		list = append(list, many(l.Cut, "line was", "lines were")+" longer than 64 KiB, and cut off there.")
	}
	if l.Outside > 0 {
		list = append(list, many(l.Outside, "request is", "requests are")+" outside the requested period.")
	}
	return list
}

// shortDate formats 2006-01-02 as 2 Jan.
func shortDate(date string) string {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return date
	}
	return t.Format("2 Jan")
}
