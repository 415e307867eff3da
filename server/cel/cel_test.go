package cel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// aChange returns an update with every field known.
func aChange() *protocol.Change {
	return &protocol.Change{
		Seq: 7, At: time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC), Op: protocol.Update, Prev: protocol.Sum([]byte("old")), Significance: 501,
		Item: protocol.Item{
			URL: "https://www.example.org/news/2026/a.html?p=1", Title: "Release notes", Modified: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
			Length: 1000, Type: "text/html", Digest: protocol.Sum([]byte("new")), Language: "en-GB",
			Canonical: "https://www.example.org/news/a.html", Importance: 35,
		},
	}
}

func tells(t *testing.T, x *Expressions, expression string, c *protocol.Change) bool {
	t.Helper()
	p, err := x.Compile(expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	ok, err := p(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return ok
}

func TestExpressions(t *testing.T) {
	x := new(Expressions)
	bare := &protocol.Change{Seq: 8, Op: protocol.Create, Item: protocol.Item{URL: "https://www.example.org/", Length: -1}}
	move := aChange()
	move.Op, move.From = protocol.Move, "https://www.example.org/old.html"
	for _, c := range []struct {
		expression string
		change     *protocol.Change
		want       bool
	}{
		{`true`, aChange(), true},
		{`change.op == "update"`, aChange(), true},
		{`change.op in ["create", "delete"]`, aChange(), false},
		{`change.url == "https://www.example.org/news/2026/a.html?p=1"`, aChange(), true},
		{`change.path == "/news/2026/a.html"`, aChange(), true},
		{`change.depth == 3`, aChange(), true},
		{`change.seq == 7 && change.seq % 2 == 1`, aChange(), true},
		{`change.at == timestamp("2026-11-21T05:00:00Z") && change.at.getHours() == 5`, aChange(), true},
		{`change.at - page.modified == duration("29h")`, aChange(), true},
		{`change.prev == "` + protocol.Sum([]byte("old")).String() + `"`, aChange(), true},
		{`change.significance > 0.4 && change.significance < 1`, aChange(), true},
		{`change.from.endsWith("/old.html")`, move, true},
		{`has(change.from)`, aChange(), false},
		{`page.type == "text/html" && page.length <= 1000 && page.language == "en-GB"`, aChange(), true},
		{`page.title.matches("(?i)^release")`, aChange(), true},
		{`matches(page.title, "^release")`, aChange(), false},
		{`page.importance == 0.35`, aChange(), true},
		{`page.length > 999.5`, aChange(), true}, // decimal and whole
		{`page.digest != change.prev`, aChange(), true},
		{`page.canonical != change.url`, aChange(), true},
		{`["/docs/", "/news/"].exists(p, change.path.startsWith(p))`, aChange(), true},
		{`[1, 2, 3].map(n, n * 2).filter(n, n > 2).size() == 2`, aChange(), true},
		{`has(page.type) || has(page.length) || has(page.language) || has(page.title) || has(page.modified) || has(page.importance) || has(page.digest) || has(page.canonical)`, bare, false},
		{`has(change.from) || has(change.at) || has(change.prev) || has(change.significance)`, bare, false},
		{`page.length < 5`, bare, false},    // unknown
		{`!(page.length < 5)`, bare, false}, // unknown too
		{`page.length < 5 || change.depth == 1`, bare, true},
		{`!has(page.length) || page.length < 5`, bare, true},
		{`page.length / 0 > 1`, aChange(), false},
		{`dyn(page.title) > 5`, aChange(), false},
		{`dyn(change).nothing == 1`, aChange(), false},
		{`{"a": 1}["b"] == 1`, aChange(), false},
		{`timestamp(page.title) < change.at`, aChange(), false},
	} {
		if got := tells(t, x, c.expression, c.change); got != c.want {
			t.Errorf("%s: %v", c.expression, got)
		}
	}
}

// Like conditions on a page, an unknown value never holds back a delete; known values may.
func TestUnknownValuesNeverHideDeletes(t *testing.T) {
	x := new(Expressions)
	// A journal may attach more data to a delete than conditions may use.
	gone := &protocol.Change{Seq: 9, At: time.Unix(9, 0), Op: protocol.Delete, Item: protocol.Item{URL: "https://www.example.org/news/a", Type: "text/html", Length: 10}}
	for expression, want := range map[string]bool{
		`page.type == "image/png"`:                                          true,
		`page.type == "image/png" && change.path.startsWith("/news/")`:      true,
		`page.type == "image/png" && change.path.startsWith("/docs/")`:      false,
		`change.op != "delete"`:                                             false,
		`change.op == "delete"`:                                             true,
		`has(page.type)`:                                                    false,
		`has(page.type) && page.type == "text/html"`:                        false, // has() is an explicit condition
		`change.significance > 0.5`:                                         true,
		`change.seq < 9`:                                                    false,
		`[1,2,3,4,5,6,7,8,9].all(n, n == 0) || page.importance > double(1)`: true,
	} {
		if got := tells(t, x, expression, gone); got != want {
			t.Errorf("%s: %v", expression, got)
		}
	}
}

func TestErrorsSuggestCorrection(t *testing.T) {
	x := new(Expressions)
	for _, c := range []struct{ expression, says, instead string }{
		{`page.lenght > 3`, "at character 5: undefined field 'lenght'", "page has type, length, language"},
		{`page.text == ""`, "undefined field 'text'", "send a program"},
		{`page.significance > 0.5`, "undefined field 'significance'", "write change.significance"},
		{`page.depth > 1`, "undefined field 'depth'", "write change.depth"},
		{`html`, "undeclared reference to 'html'", "put text in quotes"},
		{`now > change.at`, "undeclared reference to 'now'", "timestamp("},
		{`page.length`, "is a int", "compare it with something"},
		{"true\n&& page.length > 'x'", "in line 2 at character 16: found no matching overload", "of one type"},
		{`change == change`, "no bound", "compare fields"},
		{`change.path.matches(change.url)`, "a literal pattern", "contains, startsWith"},
		{`change.path.matches("a" + "b")`, "a literal pattern", "contains"},
		{`change.path.matches("(")`, `"(" is not a valid RE2 pattern`, "missing closing )"},
		{`change.path.matches("a{900}")`, "902 instructions", "write a shorter one"},
		{`change.path.matches("a{2000}")`, "is not a valid RE2 pattern", "invalid repeat count"},
		{strings.Repeat(`page.title.matches("a") || `, 17) + "true", "more than 16 patterns", "join them by |"},
		{`change.at.getHours("Europe/Paris") > 1`, "no time zone", "UTC"},
		{`change.at > timestamp("yesterday")`, "invalid timestamp", "2026-11-21T00:00:00Z"},
		{`change.op == `, "at character 14", "incomplete"},
		{`change.op == "a" and true`, "mismatched input 'and'", "&&"},
		{`page.type = "text/html"`, "at character 11", "=="},
		{`"\q" == change.op`, "token recognition", "quotes"},
		{``, "at character 1", "incomplete"},
		{`"` + strings.Repeat("x", protocol.MaxWhere) + `" == change.url`, "4112 bytes", "4096"},
	} {
		_, err := x.Compile(c.expression)
		if err == nil {
			t.Errorf("%.80s: no error", c.expression)
			continue
		}
		if s := err.Error(); !strings.Contains(s, c.says) || !strings.Contains(s, c.instead) || strings.Contains(s, "\n") || len(s) > 2*longestWords {
			t.Errorf("%.80s:\n%s\nwant %q and %q", c.expression, s, c.says, c.instead)
		}
	}
}

// bombs returns expressions that cost as much as possible.
func bombs() []string {
	again := strings.Repeat
	list := func(n int) string { return "[" + strings.TrimSuffix(again("1,", n), ",") + "]" }
	bombs := []string{
		again("(", 2000) + "true" + again(")", 2000),
		again("[", 1500) + again("]", 1500) + " == []",
		again("!", 4001) + "true",
		again("-", 4001) + "1 > 0",
		again("true && ", 500) + "true",
		again("true ? ", 400) + "true" + again(" : false", 400),
		again("1 + ", 1000) + "1 > 0",
		again(`change.url + `, 300) + `"" == ""`,
		again(`change.url + `, 25) + `"" == ""`,
		again("a.", 2000) + "b",
		again("/", 4000), again("?", 4000), again(`"`, 4001), again("{", 4000), again("x ? ", 1000), again("\x00", 4000),
		`"` + again("x", 4000) + `" == change.url`,
		list(200) + ".all(x, " + list(200) + ".all(y, x*y == 1))",
		list(500) + ".all(x, " + list(500) + ".all(y, " + list(500) + ".all(z, x*y*z == 1)))",
		list(40) + ".all(x, " + list(40) + ".all(y, x*y == 1))",
		list(100) + ".map(x, " + list(100) + ".map(y, change.url)).size() > 0",
		list(60) + ".map(x, " + list(20) + ".map(y, change.url)).size() > 0",
		"[1,2,3].map(x, " + again("[1,2,3].map(x, ", 30) + "x" + again(")", 31) + ".size() > 0",
		"[[1]].all(a, a.all(b, " + list(1000) + ".exists(c, c == b + 1)))",
		again(`change.url.contains("q") || `, 130) + "true",
		again(`change.path.matches("(.?){60}q") || `, 90) + "true",
		again(`change.path.matches("(.?){60}q") || `, 2) + "true",
		again(`change.path.matches("((a?){15}){10}$") || `, 90) + "true",
		list(60) + `.all(x, page.title.matches("(é|.|a)*b$") || true)`,
		list(400) + `.all(x, timestamp("2026-11-21T00:00:00Z") < change.at || true)`,
		list(800) + `.all(x, string(x) + change.url != "")`,
		list(300) + `.map(x, change.url + change.url).map(x, x + x).map(x, x + x).size() > 0`,
		"dyn(" + list(1000) + ") == " + list(1000),
		list(900) + ".exists_one(x, x in " + list(900) + ")",
		`bytes(change.url + change.url).size() > 0 && ` + again("bytes(change.url).size() > 0 && ", 100) + "true",
	}
	for i, b := range bombs {
		bombs[i] = b[:min(len(b), protocol.MaxWhere)]
	}
	return append(bombs, bombs[7]+bombs[7])
}

// A bomb is rejected or cut off, either way quickly.
func TestExpensiveExpressionsAreStopped(t *testing.T) {
	x := &Expressions{}
	long := aChange()
	long.Item.URL = "https://www.example.org/" + strings.Repeat("a", protocol.MaxURL-100)
	long.Item.Title = strings.Repeat("é", 512)
	refused, slowest, dearest := 0, time.Duration(0), time.Duration(0)
	for _, b := range bombs() {
		begin := time.Now()
		p, err := x.Compile(b)
		if d := time.Since(begin); d > dearest {
			dearest = d
		}
		if err != nil {
			if refused++; len(err.Error()) > 2*longestWords {
				t.Errorf("%.60s: %v", b, err)
			}
			continue
		}
		begin = time.Now()
		if _, err := p(t.Context(), long); err != nil {
			t.Errorf("%.60s: %v", b, err)
		}
		d := time.Since(begin)
		if d > slowest {
			slowest = d
		}
		t.Logf("%-60.60s evaluated in %v", b, d)
	}
	t.Logf("refused %d of %d; compiled or refused in at most %v; evaluated in at most %v", refused, len(bombs()), dearest, slowest)
	if refused < len(bombs())/2 {
		t.Errorf("only %d of %d are rejected", refused, len(bombs()))
	}
	// Some ten milliseconds; the bounds are for busy machines, since the attacks that they prevent take
	// minutes.
	if dearest > 2*time.Second || slowest > 2*time.Second {
		t.Errorf("compiled in %v, evaluated in %v", dearest, slowest)
	}
}

// A text may be longer than the cost estimate assumed.
func TestCostIsLimitedDuringEvaluation(t *testing.T) {
	x := &Expressions{}
	const e = `change.path.matches("(.?){9}q") || change.path.matches("(.?){9}r") || change.path.matches("(.?){8}s") || change.path.matches("(.?){8}t") || change.path.matches("(.?){8}u") || true`
	c := aChange()
	if !tells(t, x, e, c) {
		t.Error("the evaluation is stopped although the text is short")
	}
	c.Item.URL = "https://www.example.org/" + strings.Repeat("a", protocol.MaxURL-100)
	if tells(t, x, e, c) {
		t.Error("the evaluation is not stopped")
	}
	c.Op = protocol.Delete
	if !tells(t, x, e, c) {
		t.Error("a delete is not delivered")
	}
}

func TestEvaluationEndsWithContext(t *testing.T) {
	x := &Expressions{}
	p := must.Get(x.Compile("[" + strings.Repeat("1,", 999) + "1].all(x, x == 1)"))
	ctx, cancel := context.WithCancel(t.Context())
	if ok, err := p(ctx, aChange()); !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	cancel()
	if ok, err := p(ctx, aChange()); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("after the context ended: %v, %v", ok, err)
	}
}

func TestExpressionCacheIsBounded(t *testing.T) {
	x := &Expressions{Keep: 3}
	var together sync.WaitGroup
	for i := range 8 {
		together.Go(func() {
			for k := range 40 {
				e := fmt.Sprintf("change.seq == %d", (i+k)%10)
				p, err := x.Compile(e)
				if err != nil {
					t.Error(err)
					return
				}
				if ok, err := p(t.Context(), aChange()); err != nil || ok != ((i+k)%10 == 7) {
					t.Errorf("%s: %v, %v", e, ok, err)
				}
			}
		})
	}
	together.Wait()
	if len(x.kept) != 3 {
		t.Errorf("%d are cached", len(x.kept))
	}
	for _, e := range []string{"true", "false", "1 == 1", "true", "2 == 2"} { // "true" was used again
		must.Get(x.Compile(e))
	}
	if x.kept["true"] == nil || x.kept["false"] != nil || len(x.kept) != 3 {
		t.Errorf("cached are %v", x.kept)
	}
}

func FuzzCompile(f *testing.F) {
	for _, b := range bombs() {
		if len(b) <= 200 { // long ones use up their whole bound, and so do expressions made of them: TestExpensiveExpressionsAreStopped has them
			f.Add(b)
		}
	}
	f.Add(`change.op == "update" && page.length < 100 || has(page.language)`)
	f.Add(`[1, 2].exists(x, x == change.seq) && page.title.matches("(?i)a|b*")`)
	x := &Expressions{}
	bare := &protocol.Change{Op: protocol.Delete, Item: protocol.Item{URL: "https://www.example.org/", Length: -1}}
	f.Fuzz(func(t *testing.T, e string) {
		begin := time.Now()
		p, err := x.Compile(e)
		if err != nil {
			if s := err.Error(); s == "" || len(s) > 2*longestWords {
				t.Fatalf("error %q", s)
			}
			return
		}
		for _, c := range []*protocol.Change{aChange(), bare} {
			if _, err := p(t.Context(), c); err != nil {
				t.Fatalf("%s: %v", e, err)
			}
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Fatalf("%s took %v", e, d)
		}
	})
}

func BenchmarkEvaluate(b *testing.B) {
	p := must.Get(new(Expressions).Compile(`change.op != "move" && change.path.startsWith("/news/") && page.type == "text/html" && page.length < 100000`))
	c, ctx := aChange(), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := p(ctx, c); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
