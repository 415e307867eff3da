package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/sim"
)

const traceHeader = "time,commit,op,path,old_path,size,blob\n"

// at is a time of a trace that begins on day 0.
func at(days float64) int64 { return 1_600_000_000 + int64(days*24*3600) }

func packed(text string) io.Reader {
	var b bytes.Buffer
	w := coding.NewZstd(&b)
	io.WriteString(w, text)
	w.Close()
	return &b
}

// A page is followed through edits, moves and death.
func TestTraceFollowsPages(t *testing.T) {
	var b strings.Builder
	b.WriteString(traceHeader)
	push := 0
	event := func(days float64, rows ...string) {
		push++
		for _, r := range rows {
			f := strings.Fields(r)
			from, blob := "", f[len(f)-1]
			if f[0] == "R" {
				from = f[2]
			}
			if f[0] == "D" {
				blob = ""
			}
			fmt.Fprintf(&b, "%d,%d,%s,%s,%s,%d,%s\n", at(days), push, f[0], f[1], from, 100, blob)
		}
	}
	event(0, "A a 1", "A b 1", "A c 1", "A d 1")
	event(1, "M a 1", "M b 2")     // a was saved, and is what it was
	event(2, "R aa a 1")           // moved
	event(3, "R aaa aa 3", "D c")  // moved and changed
	event(4, "R b d 1", "R d b 2") // b and d change places
	event(5, "A c 9", "M b 5")     // c is back: another page
	event(5, "M b 6")              // nobody has seen what b was in between
	event(6, "R c d 2")            // what d is takes the place of c
	event(8, "M nothing 7")        // before the first event there was a page, too

	for _, r := range []io.Reader{strings.NewReader(b.String()), packed(b.String())} {
		trace, err := sim.ReadTrace("site", r)
		if err != nil {
			t.Fatal(err)
		}
		if trace.Days() != 8 {
			t.Errorf("%v days, want 8", trace.Days())
		}
		var got []string
		for _, l := range trace.Lives {
			got = append(got, fmt.Sprint(l.Path, " ", l.Born, "-", l.Died, " ", l.Changes, l.Pushes))
		}
		want := []string{
			"aaa 0-+Inf [3] [4]",
			"c 0-+Inf [1] [2]", // was b, then d
			"c 0-3 [] []",
			"b 0-+Inf [5] [6]", // was d
			"c 5-6 [] []",
			"nothing 8-+Inf [] []",
		}
		if !slices.Equal(got, want) {
			t.Errorf("lives\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if n := len(trace.Alive(1, 8)); n != 3 {
			t.Errorf("%d pages lived from day 1 to 8, want 3", n)
		}
		for _, l := range trace.Alive(2, 4) {
			if l.Path == "aaa" && !slices.Equal(l.Changes, []float64{1}) {
				t.Errorf("changes of aaa from day 2 to 4, seen from day 2: %v", l.Changes)
			}
			if l.Changes == nil {
				t.Errorf("%s: Changes is nil (unknown), want empty (none)", l.Path)
			}
		}
	}
}

func TestInvalidTraceIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "unexpected EOF"},
		{traceHeader, "no events"},
		{"a,b,c\n1,2,3\n", `no column "time"`},
		{traceHeader + "x,1,A,p,,1,b\n", `line 2: invalid time: "x": want Unix seconds, or a date such as 2024-05-31T12:00:00Z`},
		{traceHeader + "-1,1,A,p,,1,b\n", `line 2: invalid time: "-1": want Unix seconds, or a date such as 2024-05-31T12:00:00Z`},
		{traceHeader + "99999999999999,1,A,p,,1,b\n", `line 2: invalid time: "99999999999999": want Unix seconds, or a date such as 2024-05-31T12:00:00Z`},
		{traceHeader + "1,1,A,p,,1,b\n1,1e3,M,p,,1,c\n", `line 3: invalid commit: "1e3"`},
		{traceHeader + "1,1,X,p,,1,b\n", `line 2: invalid operation: "X"`},
		{traceHeader + "1,1,MM,p,,1,b\n", `line 2: invalid operation: "MM"`},
		{"time,url\n1,2\n", `no column "path"`},
		{"time,path\n2024-13-01T00:00:00Z,p\n", `line 2: invalid time: "2024-13-01T00:00:00Z": want Unix seconds, or a date such as 2024-05-31T12:00:00Z`},
		{traceHeader + "1,1,A,,,1,b\n", `line 2: path missing or too long: ""`},
		{traceHeader + "1,1,A," + strings.Repeat("p", 5000) + ",,1,b\n", `line 2: path missing or too long: "pppppppppppppppppppppppppppppppppppppppp"`},
		{traceHeader + "1,1,A,p,,-4,b\n", `line 2: invalid size: "-4"`},
		{traceHeader + "2,1,A,p,,1,b\n1,2,M,p,,1,c\n", "line 3: time 1 is earlier than on the line before"},
		{traceHeader + "1,1,A,p,,1\n", "record on line 2: wrong number of fields"},
		{traceHeader + "1,1,A,\"p,,1,b\n", `parse error on line 2, column 15: extraneous or missing " in quoted-field`},
	} {
		_, err := sim.ReadTrace("x", strings.NewReader(c.text))
		if want := "read trace x: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%.60q\ngot  %v\nwant %s", c.text, err, want)
		}
	}
	if _, err := sim.ReadTrace("x", strings.NewReader("\x28\xb5\x2f\xfd\x00")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a truncated frame: %v", err)
	}
	if _, err := sim.OpenTrace(t.TempDir(), "../etc/x"); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "read trace ../etc/x: ") {
		t.Errorf("a missing trace: %v", err)
	}
}

// The pages left at the end of a trace are those that a plain replay of it leaves.
func TestTraceAgainstReplay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		b := strings.Builder{}
		b.WriteString(traceHeader)
		tree := map[string]int{}
		changes := 0
		for push := range 30 {
			touched := map[string]bool{}
			for range 1 + rng.IntN(4) {
				p, q, blob := string(rune('a'+rng.IntN(8))), string(rune('a'+rng.IntN(8))), rng.IntN(3)
				if touched[p] || touched[q] {
					continue
				}
				touched[p], touched[q] = true, true
				was, is := tree[p]
				op, old := "M", ""
				switch rng.IntN(4) {
				case 0:
					op = "D"
					if !is {
						continue
					}
					delete(tree, p)
				case 1:
					if was, is = tree[q]; !is || p == q {
						continue
					}
					op, old = "R", q
					delete(tree, q)
					fallthrough
				default:
					if tree[p] = blob; is && was != blob {
						changes++
					}
				}
				fmt.Fprintf(&b, "%d,%d,%s,%s,%s,1,%d\n", at(float64(push)), push, op, p, old, blob)
			}
		}
		trace, err := sim.ReadTrace("x", strings.NewReader(b.String()))
		if err != nil {
			t.Fatal(err)
		}
		alive, seen := 0, 0
		for _, l := range trace.Lives {
			seen += len(l.Changes)
			if !math.IsInf(l.Died, 1) {
				continue
			}
			alive++
			if _, ok := tree[l.Path]; !ok {
				t.Fatalf("%s exists, but is not in\n%s", l.Path, b.String())
			}
		}
		if alive != len(tree) || seen != changes {
			t.Fatalf("%d pages and %d changes, want %d and %d:\n%s", alive, seen, len(tree), changes, b.String())
		}
	}
}

// TestTraceOfOnesOwn: a history that somebody recorded needs times and pages alone; pages that are URLs are of the site
// of their host.
func TestTraceOfOnesOwn(t *testing.T) {
	file := t.TempDir() + "/mine.csv"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("path,time,size\n" +
		"https://a.example/,2024-01-01T00:00:00Z,100\n" +
		"https://b.example/x,1704067200,40000\n" + // at the same time
		"https://a.example/,2024-01-02T12:00:00+00:00,300\n" +
		"https://a.example/,2024-01-02T12:00:00Z,300\n" + // twice in the file
		"https://a.example/late,2024-01-05T00:00:00Z,\n" +
		"https://a.example/,2024-01-11T00:00:00Z,300\n")
	w, err := sim.TraceWeb{File: file, Days: 10}.World()
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Sites) != 2 || len(w.Pages) != 2 || w.Pages[0].Site == w.Pages[1].Site || w.Name != file {
		t.Fatalf("%+v", w)
	}
	if a, b := w.Pages[0], w.Pages[1]; !slices.Equal(a.Trace, []float64{1.5}) || a.Bytes != 300 || b.Trace == nil || len(b.Trace) > 0 || b.Bytes != 40000 {
		t.Errorf("pages %+v", w.Pages)
	}
	for days, want := range map[float64]string{11: "it has 10 days, fewer than 11", 900: "it has 10 days, fewer than 900"} {
		if _, err := (sim.TraceWeb{File: file, Days: days}).World(); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v days: %v", days, err)
		}
	}
	write("time,path\n0,a\n86400,a\n864000,b\n8640000,b\n864000000,c\n")
	if _, err := (sim.TraceWeb{File: file, Days: 9999}).World(); err != nil { // a was born on day 0
		t.Error(err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte("time,path\n2024-05-31T12:00:00Z,a\n1717200000,b\n1717300000,a\n"))
	f.Add([]byte("path,time,op,old_path\na,1,,\nb,2,R,a\nb,3,D,\n"))
	f.Add([]byte(traceHeader + "1,1,A,p,,1,b\n90000,2,M,p,,1,c\n90001,3,R,q,p,1,c\n90002,4,D,q,,,\n"))
	f.Add([]byte(traceHeader + "1,1,R,p,q,1,b\n1,1,R,q,p,1,b\n1,1,R,r,p,1,b\n1,1,R,r,r,1,b\n"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		trace, err := sim.ReadTrace("x", bytes.NewReader(b))
		if err != nil {
			return
		}
		end := trace.Days()
		paths := map[string]bool{}
		for _, l := range trace.Lives {
			if len(l.Changes) != len(l.Pushes) || !(l.Born >= 0 && l.Born <= end) || l.Died < l.Born {
				t.Fatalf("%+v of %v days", l, end)
			}
			last := l.Born
			for _, c := range l.Changes {
				if !(c > last && c <= end && c <= l.Died) {
					t.Fatalf("%+v: change at %v", l, c)
				}
				last = c
			}
			if math.IsInf(l.Died, 1) {
				if paths[l.Path] {
					t.Fatalf("two pages exist at %q", l.Path)
				}
				paths[l.Path] = true
			}
		}
		trace.Alive(math.NaN(), math.Inf(1))
		trace.Alive(5, 1)
	})
}

// traceDir is where the real traces are.
func traceDir(tb testing.TB) string {
	return machine.Data(tb, "changes")
}

// The real traces match the description of their source, and none is a Poisson process.
func TestRealTraces(t *testing.T) {
	dir := traceDir(t)
	for _, c := range []struct {
		name           string
		ever           int // as the README of the data has it
		pages, changes int // of the last 900 days
	}{
		{"python-peps", 749, 644, 1075},
		{"astro-docs", 4511, 1381, 7505},
		{"php-net", 2361, 1369, 1183},
		{"endoflife-date", 478, 296, 14584},
	} {
		trace, err := sim.OpenTrace(dir, c.name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(trace.Lives); n != c.ever {
			t.Errorf("%s: %d pages ever, want %d", c.name, n, c.ever)
		}
		w, err := sim.TraceWeb{Dir: dir, Names: []string{c.name}}.World()
		if err != nil {
			t.Fatal(err)
		}
		b := w.Bursts(900)
		t.Logf("%s: %+v", c.name, b)
		if b.Pages != c.pages || b.Changes != c.changes {
			t.Errorf("%s: %d pages with %d changes, want %d with %d", c.name, b.Pages, b.Changes, c.pages, c.changes)
		}
		if b.Short < 1.2*b.Usual {
			t.Errorf("%s: %.3f of all gaps are short, Poisson has %.3f", c.name, b.Short, b.Usual)
		}
	}
}
