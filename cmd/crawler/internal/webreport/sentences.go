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
		switch {
		case whole == 0:
			return []string{"There is no " + noun + "."}
		case whole == 1:
			return []string{"The only " + noun + ": " + list[0].shown(by) + "."}
		case len(list) == 1:
			return []string{"All " + many(whole, noun) + " " + are + list[0].shown(by) + "."}
		}
		said := len(list)
		if said > most+1 {
			said = most
		}
		var words []string
		rest := whole
		for i, p := range largest(list)[:said] {
			words = append(words, percent(p.size, whole)+" "+map[bool]string{true: are}[i == 0]+p.shown(by))
			rest -= p.size
		}
		if said < len(list) {
			words = append(words, fmt.Sprintf("%s among %d more", percent(rest, whole), len(list)-said))
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
		amount := func(n float64) string {
			if n == 0 {
				return "no" + strings.TrimPrefix(many(0, unit), "0")
			}
			return many(n, unit)
		}
		within := func(class int) string {
			if from[class] < to[class] {
				return group(from[class]) + " to " + amount(to[class])
			}
			return amount(to[class])
		}
		upTo := func(class int) string {
			return map[bool]string{true: "at most "}[to[class] > 0] + amount(to[class])
		}
		low, half, nine, top := at(0), at(.5), at(.9), at(1)
		says := "Of " + many(whole, noun) + ", "
		switch {
		case whole == 1:
			return []string{"The only " + noun + " has " + within(low) + "."}
		case low == top:
			return []string{"Each of " + many(whole, noun) + " has " + within(low) + "."}
		case half == top:
			says += "the minimum is " + within(low)
		case nine == top:
			says += "half have " + upTo(half)
		case nine == half:
			says += "nine in ten have " + upTo(nine)
		default:
			says += "half have " + upTo(half) + ", nine in ten at most " + group(to[nine])
		}
		return []string{says + "; the maximum is " + within(top) + "."}
	}
}

// topTenth says which share the tenth of the sites with most of something has.
func topTenth(of string) saying {
	return func(ts tables) []string {
		tenth := "tenth of the sites"
		switch sites := ts.figure("sites"); {
		case sites < 2:
			return nil
		case sites <= 10:
			tenth = "site"
		}
		return figures("", "The "+tenth+" with the most "+of+" has {%share of the "+of+" on the tenth of the sites with most} of them.")(ts)
	}
}

// unlessNone says something else if a share of the graph of sites is 0.
func unlessNone(share, none string, otherwise saying) saying {
	return func(ts tables) []string {
		if x := ts.table("site_graph").find("share", share); x != nil && number(x) == 0 {
			return []string{none}
		}
		return otherwise(ts)
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
		switch {
		case whole == 1:
			return []string{"The only " + noun + " " + strings.NewReplacer("are", "is", "reach", "reaches", "begin", "begins").Replace(are) + " level " + at(top) + "."}
		case counts[top] == whole:
			return []string{"All " + many(whole, noun) + " " + are + " level " + at(top) + "."}
		}
		reach := slices.IndexFunc(counts, func(n float64) bool { sum += n; return sum >= .8*whole })
		says := fmt.Sprintf("Of %s, %s %s level %s, and no other level has more", many(whole, noun), percent(counts[top], whole), are, at(top))
		if reach < last {
			says += fmt.Sprintf("; %s are at levels up to %s", percent(sum, whole), at(reach))
		}
		return []string{says + "; the deepest is level " + at(last) + "."}
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

// badFit is the distance from which on a law is said to fit badly.
const badFit = .1

// laws says which laws quantities follow.
func laws(quantities ...string) saying {
	return func(ts tables) (says []string) {
		if ts.figure("pages") == 0 {
			return nil
		}
		var none []string
		for _, q := range quantities {
			l := ts.law(q)
			if l == nil {
				none = append(none, "the "+q)
				continue
			}
			fits := fmt.Sprintf("; the shares up to a value differ by %.3f at most", math.Ceil(1000*l.distance)/1000)
			if l.distance > badFit {
				fits = "; it fits badly" + strings.Replace(fits, ";", ":", 1)
			}
			says = append(says, fmt.Sprintf("The %s law closest to the %s is %s (%s%s).", strings.TrimSuffix(l.kind, " law"), q, l, many(l.values, "value"), fits))
		}
		if none != nil {
			says = append(says, "No law was fitted to "+wordList(none)+": there are too few different values.")
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
