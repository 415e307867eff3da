package endtoend

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
)

// A transcript is a page of documentation whose indented blocks are a shell session: a line "$ COMMAND", and
// below it the command's output. A command continues after a "\", until END with a here-document, and until
// "> done" with a loop. In the output, "..." matches anything within a line, and a line "..." any lines.
type transcript struct {
	steps []step
}

type step struct {
	line    int // line of the command
	command string
	want    []string
}

const indent = "    "

func readTranscript(t *testing.T, file string) transcript {
	t.Helper()
	b := must.Get(os.ReadFile(file))
	var tr transcript
	var s *step
	more := "" // end of the command that is being read
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		n++
		line, inside := strings.CutPrefix(lines.Text(), indent)
		switch {
		case !inside && strings.TrimSpace(line) != "":
			s, more = nil, ""
		case s != nil && more != "":
			s.command += "\n" + strings.TrimPrefix(line, "> ")
			if more == line || more == `\` && !strings.HasSuffix(line, `\`) {
				more = ""
			}
		case strings.HasPrefix(line, "$ "):
			tr.steps = append(tr.steps, step{line: n, command: line[2:]})
			s = &tr.steps[len(tr.steps)-1]
			switch {
			case strings.HasSuffix(line, `\`):
				more = `\`
			case strings.Contains(line, "<<'END'"):
				more = "END"
			case strings.HasSuffix(line, "; do"):
				more = "> done"
			}
		case s != nil:
			s.want = append(s.want, line)
		}
	}
	if len(tr.steps) == 0 {
		t.Fatalf("%s has no commands", file)
	}
	return tr
}

// run runs the commands in dir, one after the other, each as a shell would. Places maps names in the
// documentation to their values in this test.
func (tr transcript) run(t *testing.T, file, dir string, env []string, places map[string]string) {
	t.Helper()
	var there, back []string // longer names first, so that none is mistaken for another's prefix
	names := make([]string, 0, len(places))
	for name := range places {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		there, back = append(there, name, places[name]), append(back, places[name], name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(places[b]) - len(places[a]) })
	to, from := strings.NewReplacer(there...), strings.NewReplacer(back...)
	for _, s := range tr.steps {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c := exec.CommandContext(ctx, "bash", "-c", to.Replace(s.command))
		c.Dir, c.Env = dir, append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		cancel()
		got := from.Replace(string(out))
		if err != nil {
			got += fmt.Sprintf("(%v)\n", err)
		}
		if !matches(s.want, got) {
			t.Fatalf("%s:%d: $ %s\nprints\n%s\nwant\n%s", file, s.line, s.command, got, strings.Join(s.want, "\n"))
		}
	}
}

// matches compares the output with the transcript's.
func matches(want []string, got string) bool {
	for len(want) > 0 && strings.TrimSpace(want[len(want)-1]) == "" {
		want = want[:len(want)-1]
	}
	var p strings.Builder
	p.WriteString(`\A`)
	for _, line := range want {
		if strings.TrimSpace(line) == "..." {
			p.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(strings.TrimRight(line, " "), "...") {
			if i > 0 {
				p.WriteString(`.*?`)
			}
			p.WriteString(regexp.QuoteMeta(part))
		}
		p.WriteString(` *\r?\n`)
	}
	p.WriteString(`\s*\z`)
	return regexp.MustCompile(p.String()).MatchString(got)
}

func TestTranscriptMatches(t *testing.T) {
	for _, c := range []struct {
		want, got string
		ok        bool
	}{
		{"a\nb", "a\nb\n", true},
		{"a\nb", "a\n", false},
		{"a", "a\nb\n", false},
		{"took ...s", "took 12ms\n", true},
		{"a\n...\nz", "a\nb\nc\nz\n", true},
		{"a\n...\nz", "a\nz\n", true},
		{"a\n...\nz", "a\nb\n", false},
		{"", "", true},
		{"", "x\n", false},
	} {
		if ok := matches(strings.Split(c.want, "\n"), c.got); ok != c.ok {
			t.Errorf("%q against %q: %v", c.want, c.got, ok)
		}
	}
}
