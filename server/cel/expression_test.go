package cel_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleyweb/parley/protocol"
)

// An answer is the result of an expression: yes, no or none.
type answer int

const (
	no answer = iota
	yes
	none
)

func answerOf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// An expression is a CEL expression together with its meaning in Go.
type expression struct {
	text string
	says func(*protocol.Change) answer
}

// tells is the final decision: no answer counts as no, except for a delete.
func (e *expression) tells(c *protocol.Change) bool {
	switch e.says(c) {
	case yes:
		return true
	case none:
		return c.Op == protocol.Delete
	}
	return false
}

// A textField, numberField or timeField reads a field of a change; false means unknown.
type (
	textField struct {
		name string
		of   func(*protocol.Change) (string, bool)
		like []string // existing values
	}
	numberField struct {
		name  string
		of    func(*protocol.Change) (float64, bool)
		most  int
		whole bool
	}
	timeField struct {
		name string
		of   func(*protocol.Change) (time.Time, bool)
	}
)

// onPage turns a getter of a page field into a getter of a change; for a delete the field is unknown.
func onPage[T comparable](get func(*protocol.Item) T, unknown T) func(*protocol.Change) (T, bool) {
	return func(c *protocol.Change) (T, bool) {
		if c.Op == protocol.Delete {
			return unknown, false
		}
		v := get(&c.Item)
		return v, v != unknown
	}
}

func pathOf(url string) string {
	url = strings.TrimPrefix(url, "https://www.example.org")
	if i := strings.IndexByte(url, '?'); i >= 0 {
		url = url[:i]
	}
	return url
}

var textFields = []textField{
	{"change.op", func(c *protocol.Change) (string, bool) { return string(c.Op), true }, []string{"create", "update", "delete", "move", "item"}},
	{"change.url", func(c *protocol.Change) (string, bool) { return c.Item.URL, true }, somePaths},
	{"change.path", func(c *protocol.Change) (string, bool) { return pathOf(c.Item.URL), true }, somePaths},
	{"change.from", func(c *protocol.Change) (string, bool) { return c.From, c.From != "" }, somePaths},
	{"change.prev", func(c *protocol.Change) (string, bool) { return c.Prev.String(), !c.Prev.IsZero() }, []string{"sha-256=:", "A", "b"}},
	{"page.type", onPage(func(i *protocol.Item) string { return i.Type }, ""), someTypes},
	{"page.language", onPage(func(i *protocol.Item) string { return i.Language }, ""), someLanguages},
	{"page.title", onPage(func(i *protocol.Item) string { return i.Title }, ""), someTitles},
	{"page.canonical", onPage(func(i *protocol.Item) string { return i.Canonical }, ""), somePaths},
	{"page.digest", onPage(func(i *protocol.Item) string { return i.Digest.String() }, ""), []string{"=:", "sha-256", "z"}},
}

var numberFields = []numberField{
	{"change.depth", func(c *protocol.Change) (float64, bool) { return float64(strings.Count(pathOf(c.Item.URL), "/")), true }, 5, true},
	{"change.seq", func(c *protocol.Change) (float64, bool) { return float64(c.Seq), c.Seq > 0 }, 300, true},
	{"page.length", onPage(func(i *protocol.Item) float64 { return float64(i.Length) }, -1), 1000, true},
	{"page.importance", onPage(func(i *protocol.Item) float64 { return float64(i.Importance) / 100 }, 0), 1, false},
	{"change.significance", func(c *protocol.Change) (float64, bool) {
		return (float64(c.Significance) - 1) / 1000, c.Significance > 0
	}, 1, false},
}

var timeFields = []timeField{
	{"change.at", func(c *protocol.Change) (time.Time, bool) { return c.At, !c.At.IsZero() }},
	{"page.modified", onPage(func(i *protocol.Item) time.Time { return i.Modified }, time.Time{})},
}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// anExpression draws an expression of at most the given number of levels.
func anExpression(r *rand.Rand, levels int) expression {
	if levels <= 1 {
		return aLeaf(r)
	}
	a, b := anExpression(r, levels-1), anExpression(r, levels-1-r.IntN(2))
	switch r.IntN(10) {
	case 0, 1, 2:
		return expression{"(" + a.text + " && " + b.text + ")", func(c *protocol.Change) answer {
			switch x, y := a.says(c), b.says(c); {
			case x == no || y == no:
				return no
			case x == none || y == none:
				return none
			}
			return yes
		}}
	case 3, 4, 5:
		return expression{"(" + a.text + " || " + b.text + ")", func(c *protocol.Change) answer {
			switch x, y := a.says(c), b.says(c); {
			case x == yes || y == yes:
				return yes
			case x == none || y == none:
				return none
			}
			return no
		}}
	case 6:
		return expression{"!(" + a.text + ")", func(c *protocol.Change) answer {
			switch a.says(c) {
			case yes:
				return no
			case no:
				return yes
			}
			return none
		}}
	case 7:
		other := anExpression(r, levels-2)
		return expression{"(" + a.text + " ? " + b.text + " : " + other.text + ")", func(c *protocol.Change) answer {
			switch a.says(c) {
			case yes:
				return b.says(c)
			case no:
				return other.says(c)
			}
			return none
		}}
	case 8: // a list with an unknown element has no answer
		return expression{"[" + a.text + ", " + b.text + "].exists_one(x, x)", func(c *protocol.Change) answer {
			x, y := a.says(c), b.says(c)
			if x == none || y == none {
				return none
			}
			return answerOf(x != y)
		}}
	default:
		return a
	}
}

func aLeaf(r *rand.Rand) expression {
	switch r.IntN(8) {
	case 0, 1, 2:
		return aTextTest(r)
	case 3, 4:
		return aNumberTest(r)
	case 5:
		return aTimeTest(r)
	case 6:
		return aHas(r)
	default:
		return aListTest(r)
	}
}

// asked makes a leaf that tests a field; an unknown field gives no answer.
func asked[T any](text string, of func(*protocol.Change) (T, bool), test func(T) answer) expression {
	return expression{text, func(c *protocol.Change) answer {
		if v, known := of(c); known {
			return test(v)
		}
		return none
	}}
}

// aPiece draws a value of a field, or part of one.
func aPiece(r *rand.Rand, f textField) string {
	s := []rune(oneOf(r, f.like))
	from := r.IntN(len(s))
	if r.IntN(3) == 0 {
		return string(s)
	}
	return string(s[from : from+1+r.IntN(len(s)-from)])
}

func aTextTest(r *rand.Rand) expression {
	f := oneOf(r, textFields)
	s := aPiece(r, f)
	q := strconv.Quote(s)
	is := func(text string, test func(string) bool) expression {
		return asked(text, f.of, func(v string) answer { return answerOf(test(v)) })
	}
	switch r.IntN(8) {
	case 0:
		return is(f.name+" == "+q, func(v string) bool { return v == s })
	case 1:
		return is(q+" != "+f.name, func(v string) bool { return v != s })
	case 2:
		return is(f.name+".startsWith("+q+")", func(v string) bool { return strings.HasPrefix(v, s) })
	case 3:
		return is(f.name+".endsWith("+q+")", func(v string) bool { return strings.HasSuffix(v, s) })
	case 4:
		return is(f.name+".contains("+q+")", func(v string) bool { return strings.Contains(v, s) })
	case 5:
		list := []string{aPiece(r, f), s, oneOf(r, f.like)}
		return is(fmt.Sprintf("%s in [%q, %q, %q]", f.name, list[0], list[1], list[2]), func(v string) bool { return slices.Contains(list, v) })
	case 6:
		pattern := "(?i)" + regexp.QuoteMeta(s[:utf8.RuneLen([]rune(s)[0])]) + ".*[a-f]"
		re := regexp.MustCompile(pattern)
		return is(f.name+".matches("+strconv.Quote(pattern)+")", re.MatchString)
	default:
		n := r.IntN(40)
		return is(fmt.Sprintf("%s.size() > %d", f.name, n), func(v string) bool { return utf8.RuneCountInString(v) > n })
	}
}

func aNumberTest(r *rand.Rand) expression {
	f := oneOf(r, numberFields)
	at := r.IntN(f.most + 1)
	if f.whole && r.IntN(3) == 0 {
		by, rest := r.IntN(5), r.IntN(3) // by may be zero
		op, of := "%", func(v int) int { return v % by }
		if r.IntN(2) == 0 {
			op, of = "/", func(v int) int { return v / by }
		}
		return asked(fmt.Sprintf("%s %s %d <= %d", f.name, op, by, rest), f.of, func(v float64) answer {
			if by == 0 {
				return none
			}
			return answerOf(of(int(v)) <= rest)
		})
	}
	written, value := strconv.Itoa(at), float64(at)
	if !f.whole || r.IntN(4) == 0 {
		value = float64(r.IntN(100*f.most+1)) / 100
		written = strconv.FormatFloat(value, 'f', 2, 64)
	}
	switch r.IntN(5) {
	case 0:
		return asked(f.name+" < "+written, f.of, func(v float64) answer { return answerOf(v < value) })
	case 1:
		return asked(f.name+" <= "+written, f.of, func(v float64) answer { return answerOf(v <= value) })
	case 2:
		return asked(f.name+" > "+written, f.of, func(v float64) answer { return answerOf(v > value) })
	case 3:
		return asked(written+" <= "+f.name, f.of, func(v float64) answer { return answerOf(v >= value) })
	default:
		return asked(fmt.Sprintf("double(%s) * 2.0 > %s", f.name, strconv.FormatFloat(value, 'f', 2, 64)), f.of, func(v float64) answer { return answerOf(2*v > value) })
	}
}

func aTimeTest(r *rand.Rand) expression {
	f := oneOf(r, timeFields)
	at := firstTime.Add(time.Duration(r.IntN(300)) * time.Minute)
	switch r.IntN(3) {
	case 0:
		return asked(f.name+` >= timestamp("`+at.Format(time.RFC3339)+`")`, f.of, func(v time.Time) answer { return answerOf(!v.Before(at)) })
	case 1:
		return asked(f.name+` + duration("90m") < timestamp("`+at.Format(time.RFC3339)+`")`, f.of, func(v time.Time) answer { return answerOf(v.Add(90 * time.Minute).Before(at)) })
	default:
		return asked(f.name+".getMinutes() < 30", f.of, func(v time.Time) answer { return answerOf(v.Minute() < 30) })
	}
}

func aHas(r *rand.Rand) expression {
	switch r.IntN(3) {
	case 0:
		f := oneOf(r, textFields)
		return expression{"has(" + f.name + ")", func(c *protocol.Change) answer { _, known := f.of(c); return answerOf(known) }}
	case 1:
		f := oneOf(r, numberFields)
		return expression{"has(" + f.name + ")", func(c *protocol.Change) answer { _, known := f.of(c); return answerOf(known) }}
	default:
		f := oneOf(r, timeFields)
		return expression{"has(" + f.name + ")", func(c *protocol.Change) answer { _, known := f.of(c); return answerOf(known) }}
	}
}

func aListTest(r *rand.Rand) expression {
	f := oneOf(r, textFields)
	list := make([]string, 1+r.IntN(3))
	quoted := make([]string, len(list))
	for i := range list {
		list[i] = aPiece(r, f)
		quoted[i] = strconv.Quote(list[i])
	}
	text := "[" + strings.Join(quoted, ", ") + "]"
	contained := func(v string) (n int) {
		for _, s := range list {
			if strings.Contains(v, s) {
				n++
			}
		}
		return n
	}
	body := "(s, " + f.name + ".contains(s))"
	switch r.IntN(4) {
	case 0:
		return asked(text+".exists"+body, f.of, func(v string) answer { return answerOf(contained(v) > 0) })
	case 1:
		return asked(text+".all"+body, f.of, func(v string) answer { return answerOf(contained(v) == len(list)) })
	case 2:
		return asked(text+".filter"+body+".size() == 1", f.of, func(v string) answer { return answerOf(contained(v) == 1) })
	default:
		return asked(text+".map(s, "+f.name+" + s).exists(s, s.size() > 30)", f.of, func(v string) answer {
			return answerOf(slices.ContainsFunc(list, func(s string) bool { return utf8.RuneCountInString(v+s) > 30 }))
		})
	}
}
