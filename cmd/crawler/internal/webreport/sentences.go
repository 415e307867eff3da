package webreport

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A saying returns sentences about a collection: what is so, or that there is none of it.
type saying func(tables) []string

func all(list ...saying) saying {
	return func(ts tables) (says []string) {
		for _, f := range list {
			says = append(says, f(ts)...)
		}
		return says
	}
}

// fill puts numbers into a text: in place of {name} a number or a word, of {%name} a share in percent, of {page|name} a number of pages. It
// returns false if one is not known.
func fill(text string, find func(name string) any) (string, bool) {
	var b strings.Builder
	for {
		before, rest, more := strings.Cut(text, "{")
		b.WriteString(before)
		if !more {
			return b.String(), true
		}
		name, rest, _ := strings.Cut(rest, "}")
		noun, of, counts := strings.Cut(name, "|")
		share, isShare := strings.CutPrefix(name, "%")
		x := find(map[bool]string{true: of, false: share}[counts])
		word, isWord := x.(string)
		switch {
		case x == nil:
			return "", false
		case isWord:
			b.WriteString(plain(word))
		case counts:
			b.WriteString(many(number(x), noun))
		case isShare:
			b.WriteString(percent(number(x), 1))
		default:
			b.WriteString(short(number(x)))
		}
		text = rest
	}
}

// figures says what the summary has, and of the graph of sites which shares: the texts whose figures are known, or else none.
func figures(none string, texts ...string) saying {
	return func(ts tables) []string {
		return filled(none, texts, func(name string) any {
			if x := ts.table("summary").find("value", name); x != nil {
				return x
			}
			return ts.table("site_graph").find("share", name)
		})
	}
}

func filled(none string, texts []string, find func(string) any) (says []string) {
	for _, text := range texts {
		if s, ok := fill(text, find); ok {
			says = append(says, s)
		}
	}
	if says == nil && none != "" {
		says = []string{none}
	}
	return says
}

// mostSaid is of how many rows something is said.
const mostSaid = 20

// rows says the same of some rows of a table, by the names of its columns; pick chooses them.
func rows(name string, pick func(*table) []int, none string, texts ...string) saying {
	return func(ts tables) (says []string) {
		t := ts.table(name)
		chosen := pick(t)
		for _, i := range chosen[:min(len(chosen), mostSaid)] {
			says = append(says, filled("", texts, func(column string) any { return cell(t.Rows[i], slices.Index(t.Columns, column)) })...)
		}
		if says == nil && none != "" {
			says = []string{none}
		}
		return says
	}
}

// most picks the row with the greatest number above zero in a column.
func most(column string) func(*table) []int {
	return func(t *table) []int {
		list := t.column(column)
		if i := slices.Index(list, slices.Max(append(list, 0))); i >= 0 && list[i] > 0 {
			return []int{i}
		}
		return nil
	}
}

// above picks the rows with more than this in a column.
func above(column string, least float64) func(*table) []int {
	return func(t *table) (list []int) {
		for i, x := range t.column(column) {
			if x > least {
				list = append(list, i)
			}
		}
		return list
	}
}

// first picks the first of other rows.
func first(pick func(*table) []int) func(*table) []int {
	return func(t *table) []int { return pick(t)[:min(1, len(pick(t)))] }
}

// shares says how a table divides what it counts.
func shares(name, by, of, noun, are string) saying {
	const most = 5
	return func(ts tables) []string {
		list, whole := ts.table(name).pieces(by, of)
		if whole == 0 {
			return []string{"There is no " + noun + "."}
		}
		var words []string
		rest := whole
		for i, p := range largest(list)[:min(most, len(list))] {
			words = append(words, percent(p.size, whole)+" "+map[bool]string{true: are}[i == 0]+p.shown())
			rest -= p.size
		}
		if len(list) > most {
			words = append(words, fmt.Sprintf("%s among %d more", percent(rest, whole), len(list)-most))
		}
		return []string{fmt.Sprintf("Of %s, %s.", many(whole, noun), wordList(words))}
	}
}

// classes says how the numbers are spread that a table counts in classes.
func classes(name, of, noun, unit string) saying {
	return func(ts tables) []string {
		t := ts.table(name)
		counts, from, to := t.column(of), t.column("from"), t.column("to")
		whole := total(counts)
		if whole == 0 {
			return []string{"There is no " + noun + " to count."}
		}
		at := func(share float64) int { // the class in which this share is reached
			sum := 0.
			return slices.IndexFunc(counts, func(n float64) bool { sum += n; return n > 0 && sum >= share*whole })
		}
		if low, top := at(0), at(1); low == top {
			return []string{fmt.Sprintf("Of %s, each has %s%s.", many(whole, noun), map[bool]string{true: group(from[low]) + " to "}[from[low] < to[low]], many(to[low], unit))}
		}
		return []string{fmt.Sprintf("Of %s, half have at most %s, nine in ten at most %s, and none has more than %s.",
			many(whole, noun), many(to[at(.5)], unit), group(to[at(.9)]), group(to[at(1)]))}
	}
}

// peak says at which level there are most, by the first column, up to which one there are four fifths, and how far the last are.
func peak(name, of, noun, are string) saying {
	return func(ts tables) []string {
		t := ts.table(name)
		counts, sum := t.column(of), 0.
		whole := total(counts)
		if whole == 0 {
			return []string{"There is no " + noun + "."}
		}
		at := func(i int) string { return cellText(t.Rows[i][0]) }
		top, last := slices.Index(counts, slices.Max(counts)), len(counts)-1
		for counts[last] == 0 {
			last--
		}
		if counts[top] == whole {
			return []string{fmt.Sprintf("Of %s, all %s level %s.", many(whole, noun), are, at(top))}
		}
		reach := slices.IndexFunc(counts, func(n float64) bool { sum += n; return sum >= .8*whole })
		says := fmt.Sprintf("Of %s, %s %s level %s, and no more any other", many(whole, noun), percent(counts[top], whole), are, at(top))
		if reach < last {
			says += fmt.Sprintf("; %s %s level %s at most", percent(sum, whole), are, at(reach))
		}
		return []string{says + "; none is beyond level " + at(last) + "."}
	}
}

// A law is a row of the table of laws.
type law struct {
	kind                              string
	parameter, from, values, distance float64
}

func (ts tables) law(quantity string) *law {
	t := ts.table("laws")
	for i, row := range t.Rows {
		if row[0] == quantity {
			return &law{cellText(row[1]), t.column("parameter")[i], t.column("from")[i], t.column("values")[i], t.column("distance")[i]}
		}
	}
	return nil
}

func (l *law) String() string {
	if l.kind == "exponential" {
		return fmt.Sprintf("e^(-%.3f k)", l.parameter)
	}
	return fmt.Sprintf("k^-%.2f from %s on", l.parameter, group(l.from))
}

// laws says which laws quantities follow.
func laws(quantities ...string) saying {
	return func(ts tables) (says []string) {
		for _, q := range quantities {
			if l := ts.law(q); l == nil {
				says = append(says, "No law was fitted to the "+q+": there are too few different values.")
			} else {
				says = append(says, fmt.Sprintf("The %s law closest to the %s is %s (%s; the shares up to a value differ by %.3f at most).", strings.TrimSuffix(l.kind, " law"), q, l, many(l.values, "value"), math.Ceil(1000*l.distance)/1000))
			}
		}
		return says
	}
}

// density returns the share that a law has at k, of all values.
func (l *law) density(all float64) func(k float64) float64 {
	if l.kind == "exponential" {
		return func(k float64) float64 { return l.parameter * math.Exp(-l.parameter*k) }
	}
	sum, k := 0., l.from
	for ; k < l.from+1000; k++ {
		sum += math.Pow(k, -l.parameter)
	}
	sum += math.Pow(k-.5, 1-l.parameter) / (l.parameter - 1) // of all greater k
	return func(k float64) float64 { return math.Pow(k, -l.parameter) / sum * (l.values / all) }
}
