package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/internal/accesslog"
	"github.com/parleyweb/parley/internal/must"
)

// The log is reproducible, every line of it is valid, and it contains people and crawlers.
func TestGenerate(t *testing.T) {
	var a, b bytes.Buffer
	for _, w := range []*bytes.Buffer{&a, &b} {
		must.OK(t, generate(w, 20_000, 1))
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two logs with the same seed differ")
	}
	files := must.Get(accesslog.Open([]string{"-"}, &a))
	defer files.Close()
	agents, crawlers, names := accesslog.NewAgents(), 0, map[string]bool{}
	for e := files.Next(); e != nil; e = files.Next() {
		if who := agents.Identify(e.Agent); who.Kind.Crawler() {
			crawlers++
			names[who.Name] = true
		}
	}
	if f := files.Files()[0]; f.Entries != 20_000 || f.Broken != 0 || crawlers < 9000 || crawlers > 11_000 || len(names) != len(callers())-2 {
		t.Errorf("%+v, %d by crawlers %v", f, crawlers, names)
	}
}

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds rdfgen")
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-n", "5000", "-rounds", "1"}, &out); err != nil && !errors.Is(err, goal.ErrMissed) {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "5000 lines, ") || !strings.Contains(out.String(), "\nrdfgen report ") {
		t.Error(out.String())
	}
	if err := run(t.Context(), []string{"-n", "0"}, &out); err == nil {
		t.Error("no error for -n 0")
	}
	name := t.TempDir() + "/log"
	must.OK(t, run(t.Context(), []string{"-n", "10", "-write", name}, &out))
	if text, err := os.ReadFile(name); err != nil || bytes.Count(text, []byte("\n")) != 10 {
		t.Errorf("%v: %s", err, text)
	}
}
