package webreport

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/digits"
)

// group formats a whole number: 12,345.
func group(x float64) string {
	return digits.Group(strconv.FormatFloat(x, 'f', 0, 64), ",")
}

// short formats a number with three digits or more.
func short(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e15 || a > 0 && a < 1e-4:
		return strconv.FormatFloat(x, 'g', 3, 64)
	case a >= 1000 || x == math.Trunc(x):
		return group(x)
	case a >= 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// Size formats bytes: 12.3 MB.
func Size(x float64) string {
	units, u := []string{"bytes", "kB", "MB", "GB", "TB"}, 0
	for ; x >= 999.5 && u+1 < len(units); u++ {
		x /= 1000
	}
	if u == 0 || x >= 99.95 {
		return group(x) + " " + units[u]
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + " " + units[u]
}

// percent formats a part of a whole.
func percent(part, whole float64) string {
	switch p := 100 * part / whole; {
	case whole == 0 || part == 0:
		return "0 %"
	case part == whole:
		return "100 %"
	case p < .1:
		return "less than 0.1 %"
	case p > 99.9 && p < 100:
		return "more than 99.9 %"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
}

// many formats "1 page" and "2 pages"; "1 page of text" and "2 pages of text".
func many(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	end := len(noun)
	for _, clause := range []string{" of ", " with ", " to ", " stored "} {
		if i := strings.Index(noun, clause); i >= 0 {
			end = min(end, i)
		}
	}
	return group(n) + " " + noun[:end] + "s" + noun[end:]
}

// wordList joins words: "a, b and c".
func wordList(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// plain makes text from strangers fit to show.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 120 {
		return string(r[:119]) + "…"
	}
	return s
}

// A piece is a part of a whole.
type piece struct {
	name string
	size float64
}

// shown returns the name of a piece for people; by is what the names are.
func (p piece) shown(by string) string {
	if p.name == "" || p.name == "none" {
		return "no " + by
	}
	return plain(p.name)
}

// pieces adds up a column of a table by the names in another one, and returns the sum of all.
func (t *table) pieces(by, of string) (list []piece, whole float64) {
	at, c := map[string]int{}, slices.Index(t.Columns, by)
	for i, size := range t.column(of) {
		name := cellText(cell(t.Rows[i], c))
		if _, known := at[name]; !known && size > 0 {
			at[name] = len(list)
			list = append(list, piece{name: name})
		}
		if size > 0 {
			list[at[name]].size += size
			whole += size
		}
	}
	return list, whole
}

// largest returns the pieces, the largest first.
func largest(list []piece) []piece {
	return slices.SortedStableFunc(slices.Values(list), func(a, b piece) int { return cmp.Compare(b.size, a.size) })
}

func total(list []float64) (sum float64) {
	for _, x := range list {
		sum += x
	}
	return sum
}
