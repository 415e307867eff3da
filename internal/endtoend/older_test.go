package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// olderPrograms builds the programs of an earlier commit, and returns their directory.
func olderPrograms(t *testing.T, commit string) string {
	t.Helper()
	git := machine.Tool(t, "git")
	if err := exec.Command(git, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		machine.Lacks(t, "the history of the repository has no commit "+commit)
	}
	dir := t.TempDir()
	for _, script := range []string{"git -C ../.. archive " + commit + " | tar -x -C " + dir, "go -C " + dir + " build -trimpath -o programs/ ./cmd/rdfgen ./cmd/notifier ./cmd/crawler"} {
		if said, err := exec.Command("bash", "-eo", "pipefail", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, said)
		}
	}
	return filepath.Join(dir, "programs")
}

// What the programs of an earlier version have stored, today's continue, even if those were killed: the site's cursors remain valid, its
// pages keep their dates, the copy fetches only what has changed, and the events of a crawl go on with the next number. An earlier version
// refuses what today's have stored, and leaves it as it is.
func TestStatesOfOlderVersions(t *testing.T) {
	if os.Getenv("PARLEY_OLDER") == "" {
		t.Skip("PARLEY_OLDER is not set: it takes minutes to build older versions")
	}
	for _, v := range []struct {
		commit     string
		site       int // format of its state of a site
		collection int // and of its state of a crawl, 0 if it has none
	}{
		{"e5c361f", 1, 0}, // each is the last one with one of these formats
		{"c8ba77d", 2, 1},
		{"0398e1e", 2, 2},
		{"76d208f", 3, 2},
	} {
		t.Run(fmt.Sprintf("%s: site %d, crawl %d", v.commit, v.site, v.collection), func(t *testing.T) {
			older, today := olderPrograms(t, v.commit), bin
			t.Cleanup(func() { bin = today })
			r := newRig(t)
			for i := range 12 {
				r.write(fmt.Sprintf("d%d/p%d.html", i%3, i), fmt.Sprintf("<title>Page %d</title><p>The first text of page %d.", i, i))
			}
			r.write("robots.txt", "User-agent: *\nDisallow: /staff/\n")
			dir := filepath.Join(filepath.Dir(r.root), "crawl")
			crawl := func() (string, int) {
				return run(t, "crawler", "crawl", r.base, "--into", dir, "--allow-private", "--wait", "0")
			}

			bin = older
			r.startNotifier()
			r.startCrawler()
			r.identical()
			var events []string
			if v.collection > 0 {
				said, code := crawl()
				if code != 0 {
					t.Fatalf("the crawl of the earlier version exits with %d: %s", code, said)
				}
				if events, said = r.events(dir); len(events) != 12 {
					t.Fatalf("the earlier version has %d events, want 12: %s", len(events), said)
				}
			}
			epoch, seq, dates := r.manifest()
			r.write("d1/p1.html", "<title>Page 1</title><p>The second text of page 1.")
			r.identical()
			r.crawler.kill9()
			r.notifier.kill9()
			r.write("d2/p2.html", "<title>Page 2</title><p>The second text of page 2.")
			r.must(os.Remove(r.path("d0/p3.html")))

			bin = today
			r.startNotifier("--grace", "100ms")
			r.web.Requests()
			if v.collection < 2 { // such a copy is begun anew, when a person has moved its state away
				said, code := run(t, "crawler", "follow", r.base, "--into", r.mirror)
				if code != 1 || !strings.Contains(said, "another directory") && !strings.Contains(said, "move state.db away") {
					t.Errorf("a copy of the earlier version: exit code %d: %s", code, said)
				}
				r.must(os.Rename(filepath.Join(r.mirror, ".parley/state.db"), filepath.Join(r.mirror, ".parley/state.old")))
			}
			r.startCrawler()
			r.identical()
			for path := range r.web.Requests() {
				if v.collection < 2 {
					break
				}
				if !slices.Contains([]string{"/d2/p2.html", "/d0/p3.html", "/d1/p1.html"}, path) {
					t.Errorf("the copy was begun anew: %s was fetched", path)
				}
			}
			status, changes := r.read("parley/changes?after=" + epoch + ":" + seq)
			for _, path := range []string{"d1/p1.html", "d2/p2.html", "d0/p3.html"} {
				if status != http.StatusOK || !strings.Contains(changes, r.base+path) {
					t.Errorf("changes after a cursor of the earlier version: status %d, without %s: %s", status, path, changes)
				}
			}
			now, _, after := r.manifest()
			if now != epoch || after["d0/p6.html"] == "" || after["d0/p6.html"] != dates["d0/p6.html"] {
				t.Errorf("epoch %s, and page 6 dated %s; before %s and %s", now, after["d0/p6.html"], epoch, dates["d0/p6.html"])
			}

			switch got, said := r.events(dir); v.collection {
			case 1:
				if _, code := crawl(); code != 1 || !strings.Contains(said, "it has format 1") || !strings.Contains(said, "another directory") {
					t.Errorf("a collection of format 1: exit code %d: %s", code, said)
				}
			case 2:
				if !slices.Equal(got, events) {
					t.Errorf("events %q, want %q: %s", got, events, said)
				}
				if said, code := crawl(); code != 0 {
					t.Errorf("the crawl exits with %d: %s", code, said)
				}
				next := strings.Replace(strings.Fields(events[11])[0], ":12", ":13", 1)
				if got, said = r.events(dir); len(got) != 14 || !slices.Equal(got[:12], events) || !strings.HasPrefix(got[12], next+" ") {
					t.Errorf("after another crawl events %q, want %q and two updates: %s", got, events, said)
				}
				if page, _ := run(t, "crawler", "get", r.base+"d2/p5.html", "--into", dir); !strings.Contains(page, "The first text of page 5.") {
					t.Errorf("the archive of the earlier version has %q", page)
				}
			}

			r.crawler.stop()
			r.notifier.stop()
			if v.site < 3 {
				state := must.Get(os.ReadFile(r.state))
				bin = older
				said, code := run(t, "rdfgen", "--docroot", r.root, "--base", r.base, "--state", r.state)
				if after, err := os.ReadFile(r.state); code != 1 || !strings.Contains(said, "format 3") || err != nil || string(after) != string(state) {
					t.Errorf("the earlier version opens today's state with exit code %d, %v: %s", code, err, said)
				}
				bin = today
			}
			r.startNotifier("--grace", "100ms")
			if again, _, _ := r.manifest(); again != epoch {
				t.Errorf("epoch %s, want %s", again, epoch)
			}
		})
	}
}

// read returns what the site answers.
func (r *rig) read(path string) (status int, text string) {
	r.t.Helper()
	resp := must.Get(http.Get(r.base + path))
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))
	return resp.StatusCode, string(b)
}

// events returns the events of a collection as "CURSOR OPERATION PATH", and what the program has said.
func (r *rig) events(dir string) (list []string, said string) {
	r.t.Helper()
	said, _ = run(r.t, "crawler", "events", "--into", dir)
	for line := range strings.Lines(said) {
		var e struct{ Cursor, Op, URL string }
		if json.Unmarshal([]byte(line), &e) == nil {
			list = append(list, e.Cursor+" "+e.Op+" "+strings.TrimPrefix(e.URL, r.base))
		}
	}
	return list, said
}

var (
	manifestCursor = regexp.MustCompile(`(?s)p:epoch>([^<]+)<.*?p:seq>(\d+)<`)
	manifestDate   = regexp.MustCompile(`(?s)<link>([^<]+)</link>.*?<dcterms:modified>([^<]+)<`)
)

// manifest returns the cursor of the present manifest, and the dates of the pages by their paths.
func (r *rig) manifest() (epoch, seq string, dates map[string]string) {
	r.t.Helper()
	_, text := r.read("robots.rdf")
	m := manifestCursor.FindStringSubmatch(text)
	if m == nil {
		r.t.Fatalf("the manifest has no cursor: %s", text)
	}
	dates = map[string]string{}
	for _, m := range manifestDate.FindAllStringSubmatch(text, -1) {
		dates[strings.TrimPrefix(m[1], r.base)] = m[2]
	}
	return m[1], m[2], dates
}
