package collection_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// crashDir is the environment variable that names the directory of the process to be killed.
const crashDir = "PARLEY_TEST_COLLECTION"

var crashStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func crashOptions(turn *int) *collection.Options {
	return &collection.Options{Contents: collection.WARC | collection.Mirror, Coding: "gzip", MaxWARC: 20_000, Policy: daily{},
		Now: func() time.Time { return crashStart.Add(time.Duration(*turn+1) * time.Minute) }}
}

// A scene is one visit of a transaction.
type scene struct {
	path, body string
	status     int
}

// scenes returns the visits of transaction k: the same in every process.
func scenes(k int) []scene {
	rnd := rand.New(rand.NewPCG(7, uint64(k)))
	list := []scene{{"/turn.txt", strconv.Itoa(k), 200}}
	for i := range 30 {
		// Some of the pages share bodies.
		s := scene{path: fmt.Sprintf("/p%d.txt", i), status: 200, body: fmt.Sprint(strings.Repeat("x", i%20*20), rnd.IntN(3))}
		switch rnd.IntN(8) {
		case 0:
			s.status, s.body = 410, ""
		case 1:
			s.status, s.body = 304, ""
		case 2, 3, 4:
			continue
		}
		list = append(list, s)
	}
	return list
}

// played returns how many transactions a collection has committed.
func played(t testing.TB, c *collection.Collection) int {
	p, ok, err := c.Page(home + "/turn.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !ok || p.Digest.IsZero() {
		return 0
	}
	content, err := c.Contents().Content(p.URL, p.Stored)
	k := must.Get(strconv.Atoi(read(t, content, err)))
	return k + 1
}

// play commits transactions until the process is killed.
func play(t testing.TB, dir string) {
	turn := 0
	c := must.Get(collection.Open(dir, crashOptions(&turn)))
	for turn = played(t, c); ; turn++ {
		var first, second collection.Commit
		list := scenes(turn)
		for _, s := range list {
			first.Finds = append(first.Finds, collection.Find{URL: home + s.path, By: collection.ByLink})
		}
		must.Get(c.Commit(&first))
		for _, s := range list {
			p, _, err := c.Page(home + s.path)
			if err != nil {
				t.Fatal(err)
			}
			if s.status == 304 && p.State != collection.Held {
				continue
			}
			v := collection.Visit{Page: p.ID, Asked: crashStart.Add(time.Duration(turn) * time.Minute), Status: s.status}
			if s.body != "" {
				v.Body, v.Digest, v.Type = []byte(s.body), protocol.Sum([]byte(s.body)), "text/plain"
			}
			second.Visits = append(second.Visits, v)
		}
		must.Get(c.Commit(&second))
		os.Stdout.WriteString(".") // for the parent, which waits for a transaction
	}
}

// A stage is the expected content after some transactions.
type stage struct {
	archive map[string][]string // by URL
	files   map[string]string
	last    map[string]string // by path: the body that was stored last
	first   map[string]string // by body: the page that the collection remembers as having it
	status  map[string]int
	events  []string
}

func (s *stage) play(k int) {
	for _, v := range scenes(k) {
		url, file := home+v.path, "a.example"+v.path
		held, has := s.files[file]
		op := ""
		switch {
		case v.status == 410 && has:
			op = "delete"
			delete(s.files, file)
			s.archive[url] = append(s.archive[url], "")
		case v.status == 410 && s.status[v.path] != 410:
			s.archive[url] = append(s.archive[url], "")
		case v.status == 304 && has:
			s.archive[url] = append(s.archive[url], "=")
		case v.status == 200:
			last, ok := s.last[v.path]
			if first := s.first[v.body]; ok && last == v.body || first != "" && first != v.path && s.last[first] == v.body {
				s.archive[url] = append(s.archive[url], "=")
			} else {
				s.archive[url] = append(s.archive[url], v.body)
				s.first[v.body] = v.path
			}
			if op = "update"; !has {
				op = "create"
			} else if held == v.body {
				op = ""
			}
			s.files[file], s.last[v.path] = v.body, v.body
		}
		if v.status != 304 || has { // else it was not fetched
			s.status[v.path] = v.status
		}
		if op != "" {
			s.events = append(s.events, op+" "+v.path)
		}
	}
}

// Killed at any instant, a collection continues as if nothing had happened: nothing
// is archived twice, no file is lost, and a reader that stores its cursor receives
// each change once, in order.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		play(t, dir)
	}
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	want := stage{archive: map[string][]string{}, files: map[string]string{}, last: map[string]string{}, first: map[string]string{}, status: map[string]int{}}
	turns, told, cursor := 0, []string(nil), protocol.Cursor{}
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		var out strings.Builder
		cmd.Stderr = &out
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		must.OK(t, cmd.Start())
		delay := rand.IntN(100)
		if round%3 > 0 {
			if n, _ := pipe.Read(make([]byte, 1)); n == 1 {
				out.WriteString(".")
			}
			delay /= 2
		}
		kill := time.AfterFunc(time.Duration(delay)*time.Millisecond, func() { cmd.Process.Kill() })
		rest, _ := io.ReadAll(pipe)
		cmd.Wait()
		if kill.Stop() {
			t.Fatalf("round %d ended by itself: %s%s", round, out.String(), rest)
		}
		turn := 100_000
		c, err := collection.Open(dir, crashOptions(&turn))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for n := played(t, c); turns < n; turns++ {
			want.play(turns)
		}
		for e, err := range c.Events(t.Context(), cursor, false) {
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			told, cursor = append(told, string(e.Op)+" "+strings.TrimPrefix(e.URL, home)), e.Cursor
			if e.Signal == "" || e.Op != protocol.Delete && !strings.HasPrefix(e.Stored.File, "warc/") {
				t.Errorf("round %d: incomplete event %+v", round, e)
			}
		}
		if !slices.Equal(told, want.events) {
			t.Fatalf("round %d: after %d turns got %d changes, want %d", round, turns, len(told), len(want.events))
		}
		for path, body := range want.last {
			p, _, err := c.Page(home + path)
			if err != nil {
				t.Fatal(err)
			}
			content, err := c.Contents().Content(p.URL, p.Stored)
			if got := read(t, content, err); got != body {
				t.Fatalf("round %d: %s holds %q, want %q", round, path, got, body)
			}
		}
		must.OK(t, c.Close())
		if got := tree(t, dir); !maps.Equal(got, want.files) {
			t.Fatalf("round %d: after %d turns there are files %v, want %v", round, turns, got, want.files)
		}
		if got := captures(t, dir); !maps.EqualFunc(got, want.archive, slices.Equal[[]string]) {
			for url := range got {
				if !slices.Equal(got[url], want.archive[url]) {
					t.Errorf("%s: %q, want %q", url, got[url], want.archive[url])
				}
			}
			t.Fatalf("round %d: after %d turns", round, turns)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "mirror/.parley/tmp/*")); len(left) > 0 {
			t.Errorf("round %d: left %v", round, left)
		}
	}
	if turns < rounds/2 || len(told) == 0 {
		t.Errorf("%d turns and %d changes are too few to prove anything", turns, len(told))
	}
	t.Logf("%d turns, %d changes", turns, len(told))
}
