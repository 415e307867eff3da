package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/protocol"
)

// Attacks are made and answered, and every edit is delivered beside them; this test does not check the
// latency.
func TestRun(t *testing.T) {
	docroot := machine.GitDoc(t)
	var out strings.Builder
	kinds := []string{"expression 1x64", "ranges"}
	must.OK(t, run(t.Context(), []string{"-docroot", docroot, "-pages", "40", "-rounds", "1", "-for", "1s", "-only", strings.Join(kinds, ",")}, &out))
	table, answers, _ := strings.Cut(out.String(), "Answers")
	for _, name := range kinds {
		_, line, _ := strings.Cut(table, "\n"+name+"  ")
		line, _, _ = strings.Cut(line, "\n")
		var told, withPage, edits int
		if i := strings.Index(line, " and "); i < 0 {
			t.Errorf("%s is not measured:\n%s", name, table)
		} else if _, err := fmt.Sscanf(line[strings.LastIndexByte(line[:i], ' ')+1:], "%d and %d of %d", &told, &withPage, &edits); err != nil || edits == 0 || told != edits || withPage != edits {
			t.Errorf("%s: %d and %d of %d edits were delivered, %v:\n%s", name, told, withPage, edits, err, table)
		}
		_, answer, _ := strings.Cut(answers, "  "+name+": ")
		if _, answer, _ = strings.Cut(answer, "\n"); !strings.HasPrefix(answer, "    ") {
			t.Errorf("no responses to %s:\n%s", name, answers)
		}
	}
}

// A site accepts the attack programs, and they do what their names say.
func TestAttackPrograms(t *testing.T) {
	self := must.Get(os.Executable())
	h := must.Get(agent.Open(t.TempDir(), agent.Options{Command: []string{self, agent.ProcessName}, Time: 5 * time.Second}))
	defer h.Close()
	for name, p := range map[string]struct {
		code []byte
		ends bool
	}{"loops": {loops, false}, "grows": {grows, false}, "prints": {prints, false}, "tells": {tells, true}} {
		d, err := h.Keep(t.Context(), "bot", module(p.code, name))
		if err != nil {
			t.Fatal(err)
		}
		v, err := h.Run(t.Context(), "bot", d, &protocol.Change{Op: protocol.Create, Item: protocol.Item{URL: "https://example.org/", Length: -1}}, []byte("page"), nil)
		if p.ends != (err == nil) || p.ends && (!v.Tell || len(v.Output) != protocol.MaxInline) || err != nil && !strings.Contains(err.Error(), "took longer") {
			t.Errorf("%s: %d bytes, %v", name, len(v.Output), err)
		}
	}
}

// This binary is also the attacking process, and the process that runs programs.
func TestMain(m *testing.M) {
	agent.Main()
	if len(os.Args) > 1 && os.Args[1] == "attack" {
		main()
		return
	}
	os.Exit(m.Run())
}
