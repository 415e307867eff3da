package protocol

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Filter selects the changes or pages that a reader wants (C13). All its
// conditions must hold; of a list, one value must match. The zero Filter
// matches everything. Two equivalent Filters have equal [Filter.Query].
//
// Conditions are of three kinds. Those on the URL (Prefixes, Match, MaxDepth)
// select a part of the site: a move out of it is sent as a delete, a move into it
// as a create. Those on the page (Types, Languages, MinLength ...) apply to the
// page as it is after the change, and never suppress a delete: a reader that has
// seen a page must learn that it is gone. So an update after which the page no
// longer matches is sent as a delete, and a move onto a page that does not match
// as a delete of the old URL. Ops applies last, to the operation as it will be
// sent; a reader that keeps a copy leaves Ops empty, since a copy needs every step.
//
// An unknown property of a page, such as its language, matches no condition on
// it. MinSignificance is the exception: a change of unknown significance matches,
// since it may be large.
//
// No method modifies the Filter: one may serve many goroutines at once.
type Filter struct {
	Prefixes  []string // of URLs: absolute, or beginning with "/" for path and query
	Match     []string // patterns of paths: "*" within a segment, "**" across, "?" one byte
	Types     []string // media types, "text/html", "text/*"
	Ops       []Op
	Languages []string // basic ranges of RFC 4647: "en" is also "en-GB"

	MinLength, MaxLength int64     // bytes; zero is no bound
	MaxDepth             int       // slashes in the path, as Depth counts; zero is no bound
	MinImportance        float64   // above 0, up to 1; zero is no bound
	MinSignificance      float64   // above 0, up to 1; of updates, and of moves; zero is no bound
	Since                time.Time // when the page last changed, to the millisecond; zero is no bound

	// Where is a CEL expression over the change, which the site evaluates.
	// Apply and Wants ignore it.
	Where string

	// Agent is the digest of a program uploaded before, which filters further.
	// Apply and Wants ignore it.
	Agent Digest
}

// Bounds of a Filter's parameters.
const (
	// maxFilterValues bounds the values of one list of a Filter.
	maxFilterValues = 100

	// maxPattern bounds a pattern of Filter.Match, and MaxWhere an expression, in bytes.
	maxPattern = 256
	MaxWhere   = 4 << 10

	maxDepth = 1 << 16
)

// FilterNames returns the names of a Filter's request parameters.
func FilterNames() []string {
	return []string{"prefix", "match", "type", "op", "lang", "minlen", "maxlen", "maxdepth", "minimp", "minsig", "since", "where", "agent"}
}

// IsZero reports whether the filter matches everything.
func (f *Filter) IsZero() bool {
	return len(f.Prefixes) == 0 && len(f.Match) == 0 && len(f.Types) == 0 && len(f.Ops) == 0 && len(f.Languages) == 0 &&
		f.MinLength <= 0 && f.MaxLength <= 0 && f.MaxDepth <= 0 && !(f.MinImportance > 0) && !(f.MinSignificance > 0) &&
		FormatDate(f.Since) == "" && f.Where == "" && f.Agent.IsZero()
}

// Query returns the filter as request parameters: each list sorted and without
// duplicates, zero fields left out. Equivalent Filters have the same
// [url.Values.Encode] of it.
func (f *Filter) Query() url.Values {
	q := url.Values{}
	list := func(name string, values []string) {
		if len(values) > 0 {
			q[name] = values
		}
	}
	number := func(name string, v int64) {
		if v > 0 {
			q.Set(name, strconv.FormatInt(v, 10))
		}
	}
	share := func(name string, v float64) {
		if v > 0 {
			q.Set(name, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	list("prefix", sorted(f.Prefixes))
	list("match", sorted(f.Match))
	list("type", sorted(lower(f.Types)))
	ops := make([]string, len(f.Ops))
	for i, op := range f.Ops {
		ops[i] = string(op)
	}
	list("op", sorted(ops))
	list("lang", sorted(lower(f.Languages)))
	number("minlen", f.MinLength)
	number("maxlen", f.MaxLength)
	number("maxdepth", int64(f.MaxDepth))
	share("minimp", f.MinImportance)
	share("minsig", f.MinSignificance)
	if since := FormatDate(f.Since); since != "" {
		q.Set("since", since)
	}
	if f.Where != "" {
		q.Set("where", f.Where)
	}
	if !f.Agent.IsZero() {
		q.Set("agent", f.Agent.String())
	}
	return q
}

// sorted returns a sorted copy without duplicates.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

func lower(list []string) []string {
	list = slices.Clone(list)
	for i, s := range list {
		list[i] = strings.ToLower(s)
	}
	return list
}

// A ParameterError says which parameter of a request is wrong.
type ParameterError struct {
	Name string
	Err  error
}

func (e *ParameterError) Error() string { return "parameter " + e.Name + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ParameterError) Unwrap() error { return e.Err }

// ParseFilter parses the parameters of a Filter and ignores others. The result
// is normalized as by [Filter.Query]: sorted, in lower case where case does not
// matter. It is strict, since a misread condition would be hard to notice; the
// error is a *ParameterError.
func ParseFilter(q url.Values) (Filter, error) {
	p := filterParser{q: q}
	f := Filter{
		Prefixes:        p.list("prefix", parsePrefix),
		Match:           p.list("match", parsePattern),
		Types:           p.list("type", parseTypeRange),
		Languages:       p.list("lang", parseLanguageRange),
		MinLength:       p.number("minlen", 1<<53),
		MaxLength:       p.number("maxlen", 1<<53),
		MaxDepth:        int(p.number("maxdepth", maxDepth)),
		MinImportance:   p.share("minimp"),
		MinSignificance: p.share("minsig"),
	}
	for _, op := range p.list("op", parseOp) {
		f.Ops = append(f.Ops, Op(op))
	}
	if f.MaxLength > 0 && f.MinLength > f.MaxLength {
		p.fail("maxlen", "minlen %d is greater than maxlen %d", f.MinLength, f.MaxLength)
	}
	if s, ok := p.one("since"); ok {
		d, err := ParseDate(s)
		if err != nil {
			p.fail("since", "%.80q is not a W3CDTF date, such as 2026-11-21 or 2026-11-21T05:00:00Z", s)
		}
		f.Since = d.Time
	}
	if s, ok := p.one("where"); ok {
		switch {
		case len(s) > MaxWhere:
			p.fail("where", "an expression has at most %d bytes, not %d", MaxWhere, len(s))
		case !utf8.ValidString(s):
			p.fail("where", "the expression is not UTF-8")
		}
		f.Where = s
	}
	if s, ok := p.one("agent"); ok {
		d, err := ParseDigest(s)
		if err != nil {
			p.fail("agent", "%.80q is not a digest: want sha-256=:BASE64: of 32 bytes", s)
		} else if d.IsZero() {
			p.fail("agent", "no program has the all-zero digest")
		}
		f.Agent = d
	}
	if p.err != nil {
		return Filter{}, p.err
	}
	return f, nil
}

// A filterParser keeps the first error.
type filterParser struct {
	q   url.Values
	err error
}

func (p *filterParser) fail(name, format string, args ...any) {
	if p.err == nil {
		p.err = &ParameterError{name, fmt.Errorf(format, args...)}
	}
}

// list returns the values of a parameter that may be repeated, as parse returns each.
func (p *filterParser) list(name string, parse func(string) (string, error)) []string {
	values := p.q[name]
	if len(values) == 0 {
		return nil
	}
	if len(values) > maxFilterValues {
		p.fail(name, "at most %d values, not %d", maxFilterValues, len(values))
		return nil
	}
	list := make([]string, len(values))
	for i, v := range values {
		if v == "" {
			p.fail(name, "empty value: omit the parameter, or give it a value")
			return nil
		}
		var err error
		if list[i], err = parse(v); err != nil {
			p.fail(name, "%w", err)
			return nil
		}
	}
	return sorted(list)
}

// one returns the value of a parameter that may occur at most once.
func (p *filterParser) one(name string) (string, bool) {
	switch values := p.q[name]; {
	case len(values) == 0:
		return "", false
	case len(values) > 1:
		p.fail(name, "given more than once")
		return "", false
	case values[0] == "":
		p.fail(name, "empty value: omit the parameter, or give it a value")
		return "", false
	default:
		return values[0], true
	}
}

func (p *filterParser) number(name string, most int64) int64 {
	s, ok := p.one(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > most || s != strconv.FormatInt(n, 10) {
		p.fail(name, "%.40q is not a whole number from 1 to %d", s, most)
		return 0
	}
	return n
}

func (p *filterParser) share(name string) float64 {
	s, ok := p.one(name)
	if !ok {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || len(s) > 24 || strings.Trim(s, "0123456789.") != "" || !(v > 0 && v <= 1) {
		p.fail(name, "%.40q is not a decimal number above 0, up to 1", s)
		return 0
	}
	return v
}

// parsePrefix refuses a prefix that no canonical URL can begin with: it would
// silently match nothing.
func parsePrefix(s string) (string, error) {
	if len(s) > MaxURL {
		return "", fmt.Errorf("a prefix has at most %d bytes, not %d", MaxURL, len(s))
	}
	if err := parseURLBytes(s, ""); err != nil {
		return "", err
	}
	if s[0] == '/' {
		return s, nil
	}
	scheme, rest, ok := strings.Cut(s, "://")
	host, _, slash := strings.Cut(rest, "/")
	if !ok || scheme != "http" && scheme != "https" || host == "" || !slash || host != strings.ToLower(host) {
		return "", fmt.Errorf("%.200q begins neither like a path, such as /docs/, nor like a URL, such as https://www.example.org/docs/", s)
	}
	return s, nil
}

// parseURLBytes refuses bytes that occur neither in canonical URLs nor in also.
func parseURLBytes(s, also string) error {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !urlByte[c] && c != '%' && strings.IndexByte(also, c) < 0 {
			return fmt.Errorf("%.200q has a character that URLs cannot contain: percent-encode it as in the site's own URLs", s)
		}
	}
	return nil
}

func parsePattern(s string) (string, error) {
	switch {
	case len(s) > maxPattern:
		return "", fmt.Errorf("a pattern has at most %d bytes, not %d", maxPattern, len(s))
	case s[0] != '/' && !strings.HasPrefix(s, "**"):
		return "", fmt.Errorf("%.200q matches no path: a pattern must begin with / or **", s)
	case strings.Contains(s, "***"):
		return "", fmt.Errorf("%.200q: *** is not a wildcard: * matches within a path segment, ** across segments", s)
	}
	return s, parseURLBytes(s, "")
}

func parseTypeRange(s string) (string, error) {
	t := strings.ToLower(s)
	main, sub, _ := strings.Cut(t, "/")
	if mediaType(t) != t || strings.Contains(main, "*") && t != "*/*" || strings.Contains(sub, "*") && sub != "*" {
		return "", fmt.Errorf("%.80q is not a media type without parameters, such as text/html or text/*", s)
	}
	return t, nil
}

func parseLanguageRange(s string) (string, error) {
	t := strings.ToLower(s)
	if t != "*" {
		if languageTag(t) == "" || strings.HasPrefix(t, "-") || strings.HasSuffix(t, "-") || strings.Contains(t, "--") {
			return "", fmt.Errorf("%.80q is not a language tag, such as en or pt-BR", s)
		}
	}
	return t, nil
}

func parseOp(s string) (string, error) {
	switch Op(s) {
	case Create, Update, Delete, Move:
		return s, nil
	}
	return "", errors.New(strconv.Quote(s[:min(len(s), 40)]) + " is not an operation: want create, update, delete or move")
}
