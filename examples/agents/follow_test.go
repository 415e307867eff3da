package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/index"
	"github.com/parleyweb/parley/protocol"
)

// Both deliveries contain the agent's output, and the agent runs once per change
// for all subscribers with the same request.
func TestFollow(t *testing.T) {
	s := newSidecar(t, t.TempDir())
	s.write("index.html", "<p>home")
	s.look()
	digest, err := protocol.ParseDigest(s.send(build(t, "index")))
	s.must(err)
	start := s.journal.Head()
	const pages = 20
	for i := range pages {
		s.write(fmt.Sprintf("p%d.html", i), fmt.Sprintf("<p>page %d", i))
	}
	s.look()
	head := s.journal.Head()
	for _, door := range []client.Door{client.Stream, client.Changes, client.Stream} {
		src := &client.Source{Base: s.web.URL + "/", Token: token, As: protocol.AsMeta, NoStream: door != client.Stream, NoChanges: door != client.Changes, Filter: protocol.Filter{Agent: digest}}
		told := 0
		for step, err := range client.Follow(t.Context(), src, start) {
			s.must(err)
			for i, c := range step.Changes {
				if i >= len(step.Outputs) {
					t.Fatalf("%s: no output for %s", door, c.Item.URL)
				}
				if d, err := index.Sole(bytes.NewReader(step.Outputs[i])); err != nil || d.URL != c.Item.URL || protocol.Digest(d.Digest) != c.Item.Digest {
					t.Errorf("%s: %s has the index of %q, %v", door, c.Item.URL, d.URL, err)
				}
				told++
			}
			if step.Cursor == head {
				break
			}
		}
		if told != pages {
			t.Errorf("%s: %d changes delivered of %d", door, told, pages)
		}
	}
	if st := s.agents.Stats(); st.Runs != pages || st.Failed != 0 {
		t.Errorf("with three readers of %d changes the agent ran %d times and failed %d times", pages, st.Runs, st.Failed)
	}
}

// The crawler command builds an index from the output of a site's agent.
func TestCommand(t *testing.T) {
	s := newSidecar(t, t.TempDir())
	s.write("a.html", "<p>apples and pears")
	s.write("d/b.html", "<p>apples and plums")
	s.write("d/c.txt", "apples in plain text")
	s.look()
	dir := t.TempDir()
	crawler := filepath.Join(dir, "crawler")
	if out, err := exec.Command("go", "build", "-o", crawler, "../../cmd/crawler").CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", crawler, err, out)
	}
	digest := s.send(build(t, "index"))
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		cmd := exec.Command(crawler, append([]string{"index"}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("crawler index %q: %v\n%s", args, err, errs.String())
		}
		return out.String()
	}
	file := filepath.Join(dir, "site.index")
	if out := run("build", file, "--from", s.web.URL+"/", "--program", digest, "--token", token); strings.TrimSpace(out) != s.journal.Head().String() {
		t.Errorf("build prints %q; the site stands at %s", out, s.journal.Head())
	}
	var found struct {
		Found int
		Hits  []struct{ URL string }
	}
	if err := json.Unmarshal([]byte(run("search", file, "apples plums", "--json")), &found); err != nil || found.Found != 1 || s.path(found.Hits[0].URL) != "/d/b.html" {
		t.Errorf("search finds %+v, %v", found, err)
	}
	run("build", file, "--from", s.web.URL+"/", "--program", digest, "--token", token, "--prefix", "/d/")
	if err := json.Unmarshal([]byte(run("search", file, "apples", "--json")), &found); err != nil || found.Found != 1 {
		t.Errorf("below /d/ search finds %+v, %v", found, err) // .txt files are published only with --include
	}
	cmd := exec.Command(crawler, "index", "build", file, "--from", s.web.URL+"/", "--program", digest, "--token", "guess")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no such token") {
		t.Errorf("with a wrong token: %v, %s", err, out)
	}
}
