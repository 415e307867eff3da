package robots_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/robots"
)

// ruleTexts are what a robots.txt may be found to be, and whether there is a rule in it.
var ruleTexts = []struct {
	text  []byte
	ruled bool
}{
	{nil, false}, {[]byte{}, false}, {[]byte("User-agent: *\n"), false}, {[]byte("<html>"), false}, {[]byte("Disallow: /a\n"), false},
	{[]byte("User-agent: *\nDisallow:\n"), true}, {[]byte("User-agent: *\nDisallow: /a\n"), true},
	{[]byte("User-agent: *\nDisallow: /a\nDisallow: /b\n"), true}, {[]byte("User-agent: *\nDisallow: /\n"), true},
	{[]byte("User-agent: *\nDisallow: /a\nSitemap: https://site.example/sitemap.xml\n"), true},
	{[]byte("User-agent: bot\nDisallow: /b\n"), true}, {[]byte("User-agent: *\nDisallow: /b\nUser-agent: bot\nAllow: /\n"), true},
}

var rulePaths = []string{"/a", "/b", "/c"}

// No page is public that the current robots.txt forbids; a file without a rule makes no page public; and any
// other file applies alone once it has been read twice, a minute apart, with no other content in between.
func TestRulesForAnyReadings(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
		var rules *robots.Rules
		var alone time.Time // since when nothing else was read
		last := -1
		before := map[string]bool{}
		for step := range 30 {
			i := last
			if last < 0 || r.IntN(3) > 0 {
				i = r.IntN(len(ruleTexts))
			}
			if i != last {
				last, alone = i, now
			}
			found := ruleTexts[i]
			rules = rules.Read(found.text, now, time.Minute)
			if r.IntN(4) == 0 { // a restart
				var err error
				if rules, err = robots.ParseRules(rules.Encode()); err != nil {
					t.Fatal(err)
				}
			}
			after := map[string]bool{}
			for _, agent := range []string{"*", "bot"} {
				for _, path := range rulePaths {
					got, said := rules.Allowed(agent, path), robots.Parse(found.text).Allowed(agent, path)
					after[agent+path] = got
					switch {
					case got && !said:
						t.Fatalf("seed %d, step %d: %s may have %s, which %q forbids", seed, step, agent, path, found.text)
					case got && step > 0 && !before[agent+path] && !found.ruled:
						t.Fatalf("seed %d, step %d: %q lets %s have %s", seed, step, found.text, agent, path)
					case got != said && found.ruled && now.Sub(alone) >= time.Minute:
						t.Fatalf("seed %d, step %d: %s may have %s: %v, although %q counts alone", seed, step, agent, path, got, found.text)
					}
				}
			}
			before = after
			now = now.Add(time.Duration(r.IntN(90)) * time.Second)
		}
	}
}

// noted are notes in memory, which fail when they are told to.
type noted struct {
	all map[string][]byte
	err error
}

func (n *noted) Note(key string) ([]byte, error) { return n.all[key], n.err }

func (n *noted) SetNotes(notes map[string][]byte) error {
	if n.err == nil {
		maps.Copy(n.all, notes)
	}
	return n.err
}

// The operator is reminded once a day, despite restarts. If rules cannot be stored, stricter ones apply all the
// same and looser ones do not.
func TestKeeperRemindsOnceADay(t *testing.T) {
	notes := &noted{all: map[string][]byte{}}
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	text, unreadable := []byte("User-agent: *\nDisallow: /a\n"), error(nil)
	keeper := func() *robots.Keeper {
		return &robots.Keeper{Name: "/srv/robots.txt", Notes: notes, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError})),
			Now: func() time.Time { return now }, Fetch: func(context.Context) ([]byte, error) { return text, unreadable }}
	}
	k := keeper()
	refresh := func() { k.Refresh(t.Context()) }
	refresh()
	for day := range 3 {
		for hour := range 24 {
			k = keeper()
			text, unreadable = nil, nil
			if hour%2 == 1 {
				unreadable = errors.New("timed out")
			}
			refresh()
			if k.Known().Allowed("*", "/a") {
				t.Fatal("a forbidden page is public")
			}
			now = now.Add(time.Hour)
		}
		if got := strings.Count(log.String(), "level=ERROR"); got != day+1 {
			t.Errorf("logged %d times in %d days:\n%s", got, day+1, &log)
		}
	}
	text, unreadable = []byte("User-agent: *\nDisallow: /b\n"), nil
	refresh()
	now = now.Add(time.Minute)
	notes.err = errors.New("disk full")
	text = []byte("User-agent: *\nDisallow: /b\nDisallow: /c\n")
	if _, err := k.Refresh(t.Context()); err == nil {
		t.Error("no error")
	}
	for path, want := range map[string]bool{"/a": false, "/b": false, "/c": false, "/d": true} {
		if got := k.Current().Allowed("*", path); got != want {
			t.Errorf("%s is public: %v", path, got)
		}
	}
	now = now.Add(time.Minute)
	refresh()
	if k.Current().Allowed("*", "/a") {
		t.Error("rules that could not be stored make a page public")
	}
	notes.err = nil
	refresh()
	if k = keeper(); k.Known().Allowed("*", "/c") || !k.Known().Allowed("*", "/a") {
		t.Error("the rules were not stored later")
	}
}

// Whatever the notes hold is refused or understood, and what is understood is written as it was read.
func FuzzRules(f *testing.F) {
	for _, a := range ruleTexts {
		rules := (*robots.Rules)(nil).Read(a.text, time.Time{}, time.Minute)
		for _, b := range ruleTexts {
			f.Add(rules.Read(b.text, time.Unix(1_800_000_000, 0).UTC(), time.Minute).Encode())
		}
	}
	f.Add([]byte(`{"accepted":"!"}`))
	f.Add([]byte(`{"waits":true,"since":"yesterday"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := robots.ParseRules(b)
		if err != nil {
			return
		}
		again := must.Get(robots.ParseRules(r.Encode()))
		if !bytes.Equal(r.Encode(), again.Encode()) || r.Lost() != again.Lost() || r.Missing() != again.Missing() {
			t.Fatalf("%s is read as %s", r.Encode(), again.Encode())
		}
		for _, path := range rulePaths {
			if r.Allowed("*", path) != again.Allowed("*", path) {
				t.Fatal(path)
			}
		}
	})
}

// Where everything below a directory is said to be allowed, every path below it is, in any spelling; and that is said
// of most directories that no line names.
func TestAllowsBelow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n int) (s string) {
		pieces := []string{"/", "/", "/", "a", "a", "b", "A", "%41", "%61", "*", "$", "?", "%3f", "%3F", "%2f", "%2F", "%2A", "%", "%%34", "1", "\"", "%22", "#"}
		for range 1 + r.IntN(n) {
			s += pieces[r.IntN(len(pieces))]
		}
		return s
	}
	file := func() []byte {
		s := "User-agent: bot\nDisallow: /\nUser-agent: *\n"
		for range 1 + r.IntN(3) {
			s += []string{"Allow: /", "Disallow: /"}[r.IntN(2)] + text(6) + "\n"
		}
		return []byte(s)
	}
	now := time.Now()
	said := 0
	for range 20_000 {
		rules := (*robots.Rules)(nil).Read(file(), now, 0)
		if r.IntN(2) == 0 {
			rules = rules.Read(file(), now, time.Minute)
		}
		path := "/" + text(9)
		for i := range path {
			if path[i] != '/' || !rules.AllowsBelow(path[:i+1]) {
				continue
			}
			said++
			if other := path[:i+1] + text(4); !rules.Allowed("*", path, other) || !rules.Allowed("*", other) {
				t.Fatalf("below %q: %q or %q is forbidden\n%s", path[:i+1], path, other, rules.Encode())
			}
		}
	}
	if said < 5000 {
		t.Errorf("said %d times", said)
	}
	rules := (*robots.Rules)(nil).Read([]byte("User-agent: *\nDisallow: /a/b\nDisallow: /c*/d"), now, 0)
	for dir, want := range map[string]bool{"/": false, "/a/": false, "/a/b/": false, "/a/bc/": false, "/a/c/": true, "/ab/": true, "/c/": false, "/cd/": false, "/d/": true, "/%61/c/": false} {
		if got := rules.AllowsBelow(dir); got != want {
			t.Errorf("all below %s allowed: %v, want %v", dir, got, want)
		}
	}
}
