package protocol

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
)

func TestEqualFiltersHaveEqualQuery(t *testing.T) {
	f := Filter{
		Prefixes: []string{"/b/", "https://www.example.org/a/", "/b/"}, Match: []string{"/**/x*.html"},
		Types: []string{"Text/HTML", "image/*"}, Ops: []Op{Update, Create, Update}, Languages: []string{"pt-BR", "en"},
		MinLength: 10, MaxLength: 1 << 40, MaxDepth: 3, MinImportance: 0.5, MinSignificance: 0.125,
		Since: time.Date(2026, 11, 21, 5, 0, 0, 250e6, time.UTC), Where: `change.path.endsWith("&=x")`, Agent: Sum([]byte("program")),
	}
	want := "agent=" + url.QueryEscape(f.Agent.String()) + "&lang=en&lang=pt-br&match=%2F%2A%2A%2Fx%2A.html" +
		"&maxdepth=3&maxlen=1099511627776&minimp=0.5&minlen=10&minsig=0.125&op=create&op=update&prefix=%2Fb%2F" +
		"&prefix=https%3A%2F%2Fwww.example.org%2Fa%2F&since=2026-11-21T05%3A00%3A00.250Z&type=image%2F%2A&type=text%2Fhtml" +
		"&where=change.path.endsWith%28%22%26%3Dx%22%29"
	got := f.Query().Encode()
	if got != want {
		t.Errorf("Query:\n%s\nwant\n%s", got, want)
	}
	if f.Prefixes[0] != "/b/" || f.Types[0] != "Text/HTML" {
		t.Error("Query altered the filter")
	}
	q := f.Query()
	q.Set("after", "0:0") // unknown parameters are left alone
	read := must.Get(ParseFilter(q))
	if read.Query().Encode() != got || read.IsZero() {
		t.Errorf("read back as %+v", read)
	}
	if zero := (&Filter{}); !zero.IsZero() || len(zero.Query()) != 0 {
		t.Error("the zero filter has a condition")
	}
	for _, name := range FilterNames() {
		one, err := ParseFilter(url.Values{name: q[name]})
		if err != nil || one.IsZero() || len(one.Query()) != 1 {
			t.Errorf("%s alone: %+v, %v", name, one, err)
		}
	}
}

func TestParseFilterRefuses(t *testing.T) {
	long := strings.Repeat("x", MaxURL)
	many := strings.Repeat("&op=create", maxFilterValues+1)[1:]
	for _, c := range []struct{ query, name, says string }{
		{"prefix=docs/", "prefix", "begins neither like a path"},
		{"prefix=HTTPS://www.example.org/", "prefix", "begins neither"},
		{"prefix=https://www.example.org", "prefix", "begins neither"},
		{"prefix=https://WWW.example.org/", "prefix", "begins neither"},
		{"prefix=ftp://www.example.org/", "prefix", "begins neither"},
		{"prefix=/caf%C3%A9", "prefix", "percent-encode"},
		{"prefix=/" + long, "prefix", "at most 8192 bytes"},
		{"prefix=/a&prefix=", "prefix", "empty"},
		{"match=*.html", "match", "begin with /"},
		{"match=/***", "match", "not a wildcard"},
		{"match=/a%20b", "match", "percent-encode"},
		{"match=/" + long[:maxPattern], "match", "at most 256 bytes"},
		{"type=html", "type", "not a media type"},
		{"type=text/html;charset=utf-8", "type", ""},
		{"type=text/html%3Bcharset=utf-8", "type", "not a media type"},
		{"type=text/html,text/plain", "type", "not a media type"},
		{"type=*/html", "type", "not a media type"},
		{"type=text/h*", "type", "not a media type"},
		{"op=created", "op", "not an operation"},
		{"op=" + url.QueryEscape(long), "op", "not an operation"},
		{many, "op", "at most 100 values"},
		{"lang=en_GB", "lang", "not a language tag"},
		{"lang=-", "lang", "not a language tag"},
		{"minlen=-1", "minlen", "whole number"},
		{"minlen=0", "minlen", "whole number"},
		{"minlen=01", "minlen", "whole number"},
		{"minlen=1e3", "minlen", "whole number"},
		{"minlen=99999999999999999999", "minlen", "whole number"},
		{"minlen=1&minlen=2", "minlen", "more than once"},
		{"maxlen=0", "maxlen", "whole number"},
		{"minlen=5&maxlen=4", "maxlen", "greater than maxlen"},
		{"maxdepth=65537", "maxdepth", "whole number"},
		{"minimp=0", "minimp", "above 0"},
		{"minimp=1.01", "minimp", "above 0"},
		{"minimp=NaN", "minimp", "above 0"},
		{"minimp=0x1p-3", "minimp", "above 0"},
		{"minsig=-0.5", "minsig", "above 0"},
		{"minsig=1e-3", "minsig", "above 0"},
		{"minsig=0.0000000000000000000000001", "minsig", "above 0"},
		{"since=yesterday", "since", "W3CDTF"},
		{"since=2026-11-21+05:00", "since", "W3CDTF"},
		{"since=", "since", "empty"},
		{"where=", "where", "empty"},
		{"where=%FF", "where", "UTF-8"},
		{"where=" + long, "where", "at most 4096 bytes"},
		{"agent=sha-256", "agent", "not a digest"},
		{"agent=sha-256%3D%3AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D%3A", "agent", "all-zero digest"},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			if c.says != "" {
				t.Fatal(err)
			}
			continue // no query at all
		}
		f, err := ParseFilter(q)
		var wrong *ParameterError
		if !errors.As(err, &wrong) {
			t.Errorf("%.80s: got %+v and no *ParameterError: %v", c.query, f, err)
			continue
		}
		if wrong.Name != c.name || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 500 {
			t.Errorf("%.80s: got %v of %s, want %q of %s", c.query, err, wrong.Name, c.says, c.name)
		}
	}
}

func TestFilterMoves(t *testing.T) {
	const base = "https://www.example.org"
	page := func(path string) Item {
		return Item{URL: base + path, Length: 10, Type: "text/html", Digest: Sum([]byte("new"))}
	}
	prev := Sum([]byte("old"))
	move := Change{Seq: 7, At: time.Unix(7, 0).UTC(), Op: Move, From: base + "/in/a", Item: page("/in/b"), Prev: prev, Significance: 51}
	gone := Change{Seq: 7, At: move.At, Op: Delete, Item: Item{URL: base + "/in/a", Length: -1}, Prev: prev}
	out, in := move, move
	out.Item = page("/out/b")
	in.From = base + "/out/a"
	came := Change{Seq: 7, At: move.At, Op: Create, Item: page("/in/b")}
	far := move
	far.From, far.Item = base+"/x", page("/y")
	dead := Change{Seq: 8, Op: Delete, Item: Item{URL: base + "/in/a", Length: -1}, Prev: prev}
	plain := Change{Seq: 9, Op: Update, Item: page("/in/a"), Prev: prev}
	none := Change{}
	for _, c := range []struct {
		query  string
		change Change
		want   Change // the zero Change: not delivered
	}{
		{"", move, move},
		{"prefix=/in/", move, move},
		{"prefix=/in/", out, gone},
		{"prefix=/in/", in, came},
		{"prefix=/in/", far, none},
		{"match=/in/*", out, gone},
		{"match=/in/*&type=image/png", in, none}, // it was never delivered to this subscriber
		{"maxdepth=2&prefix=" + base + "/in", move, move},
		{"type=image/*", move, gone}, // perhaps it was an image before
		{"type=image/*", dead, dead},
		{"type=image/*&prefix=/out/", dead, none},
		{"minsig=0.05", move, move},
		{"minsig=0.051", move, gone},
		{"minsig=0.051&prefix=/in/b", move, came}, // new to a subscriber that sees only /in/b
		{"op=move", move, move},
		{"op=delete", move, none},
		{"op=delete&prefix=/in/", out, gone},
		{"op=create&prefix=/in/", out, none},
		{"op=move&prefix=/in/", in, none},
		{"minlen=11&minsig=1&minimp=0.5&lang=en&since=2100", dead, dead},
		{"minlen=11", plain, none},
		{"minsig=1", plain, plain}, // without a known significance
		{"lang=*", plain, none},
		{"minimp=0.01", plain, none},
		{"since=2026", plain, none},
	} {
		q := must.Get(url.ParseQuery(c.query))
		f := must.Get(ParseFilter(q))
		got, ok := f.Apply(c.change)
		if !ok {
			got = none
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s of %s %s from %s:\n%+v\nwant\n%+v", c.query, c.change.Op, c.change.Item.URL, c.change.From, got, c.want)
		}
	}
}

func TestFilterWants(t *testing.T) {
	i := Item{URL: "https://www.example.org/docs/a.html?p=1", Length: 100, Type: "text/html", Language: "pt-BR", Importance: 35,
		Modified: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Span: 24 * time.Hour}
	for query, want := range map[string]bool{
		"":                                    true,
		"prefix=/docs/a.html?p":               true, // the query part of a URL counts too
		"prefix=/docs/b":                      false,
		"prefix=/x&prefix=/docs":              true,
		"match=/docs/*.html":                  true, // only the path counts
		"match=/docs/*.html?p=1":              false,
		"type=text/*":                         true,
		"type=*/*":                            true,
		"type=TEXT/html":                      true,
		"type=text/plain&type=image/*":        false,
		"lang=pt":                             true,
		"lang=PT-br":                          true,
		"lang=p":                              false,
		"lang=pt-br-x":                        false,
		"lang=*":                              true,
		"minlen=100&maxlen=100":               true,
		"minlen=101":                          false,
		"maxlen=99":                           false,
		"maxdepth=2":                          true,
		"maxdepth=1":                          false,
		"minimp=0.35":                         true,
		"minimp=0.351":                        false,
		"since=2026-11-21":                    true,
		"since=2026-11-21T23:59:59Z":          true, // the given day has not ended
		"since=2026-11-22":                    false,
		"op=delete":                           true, // for any operation
		"minsig=1":                            true,
		"prefix=/docs/&type=text/html&lang=p": false,
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ParseFilter(q)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if got := f.Wants(&i); got != want {
			t.Errorf("Wants by %q: %v", query, got)
		}
	}
	f := Filter{MinLength: 1}
	if f.Wants(&Item{URL: i.URL, Length: -1}) {
		t.Error("an unknown length satisfies a bound")
	}
	grave := Tombstone{URL: i.URL, At: i.Modified}
	for _, c := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, true}, {Filter{Types: []string{"image/png"}}, true}, {Filter{Prefixes: []string{"/x"}}, false},
		{Filter{Since: i.Modified}, true}, {Filter{Since: i.Modified.Add(1)}, false},
	} {
		if got := c.f.WantsGone(&grave); got != c.want {
			t.Errorf("WantsGone by %+v: %v", c.f, got)
		}
	}
}

// patternRegexp is matchPath written as a regexp, for comparison.
func patternRegexp(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || pattern[i-1] == '/'):
			b.WriteString(`(?:[^/]*/)*`)
			i += 2
		case strings.HasPrefix(rest, "**"):
			b.WriteString(`.*`)
			i++
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
		case rest[0] == '?':
			b.WriteString(`[^/]`)
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

func TestMatchPathAgreesWithRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(letters string, n int) string {
		b := make([]byte, r.IntN(n))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	fit := 0
	for range 100_000 {
		pattern, path := "/"+draw("a/*?*/b", 10), "/"+draw("a/b", 10)
		want := patternRegexp(pattern).MatchString(path)
		if got := matchPath(pattern, path); got != want {
			t.Fatalf("%q fits %q: %v, want %v", path, pattern, got, want)
		}
		if want {
			fit++
		}
	}
	if fit < 1000 {
		t.Errorf("only %d of the pairs match", fit)
	}
}

// A pattern that is expensive for backtracking matchers.
func TestMatchPathIsNotExponential(t *testing.T) {
	pattern := strings.Repeat("/**/*a", maxPattern/6) + "b"
	path := strings.Repeat("/a", MaxURL/2)
	begin := time.Now()
	if matchPath(pattern, path) {
		t.Error("the pattern matches")
	}
	if d := time.Since(begin); d > 2*time.Second { // some ms; backtracking would never end
		t.Errorf("it took %v", d)
	}
	if n := testing.AllocsPerRun(10, func() { matchPath("/**/a*/b.html", "/docs/a/an/b.html") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzMatchPath(f *testing.F) {
	f.Add("/**/a*?.html", "/b/c/ax.html")
	f.Add("**/x", "/x")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 100 || len(path) > 1000 || strings.Contains(pattern, "***") {
			return
		}
		for i := 0; i < len(pattern+path); i++ {
			if (pattern + path)[i] >= 0x80 {
				return // regexp counts runes
			}
		}
		if got, want := matchPath(pattern, path), patternRegexp(pattern).MatchString(path); got != want {
			t.Errorf("%q fits %q: %v, want %v", path, pattern, got, want)
		}
	})
}

func FuzzParseFilter(f *testing.F) {
	f.Add("prefix=/docs/&prefix=https://www.example.org/x&match=/**/*.html&type=text/*&op=move&lang=en-GB")
	f.Add("minlen=1&maxlen=200&maxdepth=3&minimp=0.35&minsig=0.001&since=2026-11-21T05:00:00.25%2B01:00")
	f.Add("where=change.op%3D%3D%22update%22&agent=sha-256%3D%3AtQmfCSM1q3j1gUJb1FsiZXgWDDJcgPI0s%2FrpUeLDXkQ%3D%3A&other=1")
	f.Add("type=Text/HTML&since=9999&minimp=.5&minsig=1.000")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		a, err := ParseFilter(q)
		if err != nil {
			var wrong *ParameterError
			if !errors.As(err, &wrong) || !reflect.DeepEqual(a, Filter{}) {
				t.Fatalf("%+v, %v", a, err)
			}
			if _, ok := q[wrong.Name]; !ok {
				t.Fatalf("%v: that parameter was not given", err)
			}
			return
		}
		b, err := ParseFilter(a.Query())
		if err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("read back as\n%+v, %v\nwas\n%+v", b, err, a)
		}
		if zero := len(a.Query()) == 0; zero != a.IsZero() {
			t.Fatalf("IsZero %v of %s", a.IsZero(), a.Query().Encode())
		}
		i := Item{URL: "https://www.example.org/docs/a.html", Length: 10, Type: "text/html", Language: "en", Importance: 50, Modified: time.Unix(1e9, 0)}
		c := Change{Seq: 1, Op: Create, Item: i}
		if _, told := a.Apply(c); told != (a.Wants(&i) && (len(a.Ops) == 0 || strings.Contains(fmt.Sprint(a.Ops), "create"))) {
			t.Fatalf("Apply %v, Wants %v", told, a.Wants(&i))
		}
	})
}
