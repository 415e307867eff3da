package maintext

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is a part of a line: a word, a space, a sign, or text that a build seems to have written, not a
// person, such as a date.
type token struct {
	text string
	form *form // nil for a literal token
}

// A form is a class of volatile tokens. Tokens of one form are taken for values of the same thing at
// different times.
type form struct {
	key  string // stands for the token in the shape of a line
	lex  string // matches one; all are in one expression, where the first match wins
	mask string // the mask for it; for some, see generalise
}

const (
	weekday = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*`
	month   = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`
	clock   = `\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?`
	suffix  = `([-+~_.]?[a-z]{0,8}\d+)*` // of a version
)

var (
	forms = []form{
		{"u", `[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`, `[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`},
		{"T", `\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|GMT|[-+]\d\d:?\d\d)\b)?`,
			`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?(Z|UTC|GMT|[-+]\d\d:?\d\d))?`},
		{"D", `\d{4}-\d\d-\d\d`, `\d{4}-\d\d-\d\d`},
		{"c", weekday + ` ` + month + ` \d{1,2} \d\d:\d\d:\d\d (?:[A-Z]{1,5} )?\d{4}`, `[A-Z][a-z]+ [A-Z][a-z]+ \d{1,2} \d\d:\d\d:\d\d ([A-Z]+ )?\d{4}`},
		{"w", weekday + `,? \d{1,2}\.? ` + month + `\.?,? \d{4}`, `[A-Z][a-z]+,? \d{1,2}\.? [A-Z][a-z]+\.?,? \d{4}`},
		{"e", weekday + `,? ` + month + `\.? \d{1,2},? \d{4}`, `[A-Z][a-z]+,? [A-Z][a-z]+\.? \d{1,2},? \d{4}`},
		{"d", `\d{1,2}(?:st|nd|rd|th|\.)? \pL{3,}\.?,? (?:19|20)\d\d`, `\d{1,2}(st|nd|rd|th|\.)? \pL+\.?,? \d{4}`},
		{"m", month + `\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}`, `[A-Z][a-z]+\.? \d{1,2}(st|nd|rd|th)?,? \d{4}`},
		{"p", clock + ` ?[AaPp]\.?[Mm]\b\.?`, `\d{1,2}:\d\d(:\d\d)?([.,]\d+)? ?[AaPp]\.?[Mm]\.?`},
		{"z", clock + ` ?(?:Z|UTC|[A-Z]{1,4}T|[-+]\d\d:?\d\d)\b`, `\d{1,2}:\d\d(:\d\d)?([.,]\d+)? ?(Z|UTC|[A-Z]+T|[-+]\d\d:?\d\d)`},
		{"t", clock, `\d{1,2}:\d\d(:\d\d)?([.,]\d+)?`},
		{"s", `\d{1,4}/\d{1,2}/\d{2,4}`, `\d{1,4}/\d{1,2}/\d{2,4}`},
		{"n", `\d+(?:\.\d+)+(?:[-+~_.]?[a-z]{0,8}\d+)*|\d{1,3}(?:,\d{3})+\b`, ``},
	}
	numberForm = &forms[len(forms)-1]
	hexForm    = &form{key: "h"}
	idForm     = &form{key: "i"}

	lexer = func() *regexp.Regexp {
		var all []string
		for _, f := range forms {
			all = append(all, "("+f.lex+")")
		}
		return regexp.MustCompile(strings.Join(all, "|") + `|(\w{7,})|\pL[\pL\pM]*|\d+|\s|.`)
	}()

	onlyDigits  = regexp.MustCompile(`^\d+$`)
	onlyVersion = regexp.MustCompile(`^\d+(\.\d+)+$`)
	onlyHex     = regexp.MustCompile(`^([0-9a-f]{7,}|[0-9A-F]{7,})$`)
	piece       = regexp.MustCompile(`\d+|[^\d]+`)
)

// lex splits a line into tokens.
func lex(line string) []token {
	var tokens []token
	for len(line) > 0 {
		at := lexer.FindStringSubmatchIndex(line)
		if at == nil { // invalid UTF-8
			return append(tokens, token{text: line})
		}
		if at[0] > 0 {
			tokens = append(tokens, token{text: line[:at[0]]})
		}
		text := line[at[0]:at[1]]
		var f *form
		for i := range forms {
			if at[2*(i+1)] >= 0 {
				f = &forms[i]
				break
			}
		}
		switch {
		case f != nil:
			tokens = append(tokens, token{text, f})
		case at[2*(len(forms)+1)] >= 0:
			tokens = append(tokens, compound(text)...)
		case onlyDigits.MatchString(text):
			tokens = append(tokens, token{text, numberForm})
		default:
			tokens = append(tokens, token{text: text})
		}
		line = line[at[1]:]
	}
	return tokens
}

// compound classifies seven or more letters and digits: a hash, something else that looks random, or words
// and numbers.
func compound(text string) []token {
	digits, upper, lower := 0, 0, 0
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case 'A' <= c && c <= 'Z':
			upper++
		case 'a' <= c && c <= 'z':
			lower++
		}
	}
	switch {
	case digits == 0:
		return []token{{text: text}}
	case digits == len(text):
		return []token{{text, numberForm}}
	case onlyHex.MatchString(text):
		return []token{{text, hexForm}}
	case len(text) >= 8 && digits >= 2 && (upper > 0 && lower > 0 || 4*digits >= len(text)):
		return []token{{text, idForm}}
	}
	var tokens []token
	for _, p := range piece.FindAllString(text, -1) {
		t := token{text: p}
		if onlyDigits.MatchString(p) {
			t.form = numberForm
		}
		tokens = append(tokens, t)
	}
	return tokens
}

// generalise returns a pattern that matches two tokens of one form.
func generalise(a, b token) string {
	both := func(re *regexp.Regexp) bool { return re.MatchString(a.text) && re.MatchString(b.text) }
	switch a.form {
	case nil:
		if !utf8.ValidString(a.text) {
			return "."
		}
		// In a configuration file a "#" may begin a comment.
		return strings.ReplaceAll(regexp.QuoteMeta(a.text), "#", `\x23`)
	case hexForm:
		set := "[0-9a-f]"
		if strings.ToLower(a.text) != a.text {
			set = "[0-9A-F]"
		}
		if strings.ToLower(a.text) != a.text != (strings.ToLower(b.text) != b.text) {
			set = "[0-9A-Fa-f]"
		}
		return set + "{7,}"
	case idForm:
		return `\w{8,}`
	case numberForm:
		switch {
		case both(onlyDigits):
			return `\d+`
		case strings.Contains(a.text+b.text, ","):
			return `\d[\d,.]*`
		case both(onlyVersion):
			return `\d+(\.\d+)+`
		default:
			return `\d+(\.\d+)*` + suffix
		}
	}
	return a.form.mask
}

// isWord reports whether a token can serve as context.
func (t token) isWord() bool {
	r, _ := utf8.DecodeRuneInString(t.text)
	return t.form == nil && unicode.IsLetter(r) && utf8.RuneCountInString(t.text) >= 2
}

// parts reports whether a token separates the spans to its left and right.
func (t token) parts() bool { return t.isWord() || t.text == blank }

// shape returns the form of a line, which stays the same when volatile tokens change.
func shape(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t.form == nil {
			b.WriteString(t.text)
		} else {
			b.WriteString("\x00" + t.form.key)
		}
	}
	return b.String()
}
