package agents

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/protocol"
)

// changed returns the share, 0 to 1, of the words of both texts that are not in
// their longest common subsequence. It does not use the agent's own measure.
func changed(before, after []string) float64 {
	all := len(before) + len(after)
	if all == 0 {
		return 0
	}
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return float64(len(before)+len(after)-2*common(before, after)) / float64(all)
}

// common returns the length of the longest common subsequence, computed row by row.
func common(a, b []string) int {
	row := make([]int32, len(b)+1)
	for _, x := range a {
		diagonal := int32(0)
		for k, y := range b {
			above := row[k+1]
			if x == y {
				row[k+1] = diagonal + 1
			} else {
				row[k+1] = max(above, row[k])
			}
			diagonal = above
		}
	}
	return int(row[len(b)])
}

func TestChanged(t *testing.T) {
	for _, c := range []struct {
		before, after string
		want          float64
	}{
		{"", "", 0}, {"a", "", 1}, {"a b", "a b", 0}, {"a b c d", "a x c d", .25}, {"a b", "b a", .5}, {"a b c d e", "a c e", .25},
	} {
		if got := changed(strings.Fields(c.before), strings.Fields(c.after)); got != c.want {
			t.Errorf("changed(%q, %q) = %v, want %v", c.before, c.after, got, c.want)
		}
	}
}

func words(name string, page []byte) []string {
	return strings.Fields(string(html.Read("http://localhost/"+name, page, html.Options{Text: true}).Text))
}

const least = 0.05 // the value that build sets in the agent

// somePage returns a page of the paragraphs, with the number of the build in its footer.
func somePage(r *rand.Rand, paragraphs []string, build int) string {
	return fmt.Sprintf("<html lang=en><title>Page</title><main><h1>Page</h1><p>%s</main><footer>Built on day %d</footer>", strings.Join(paragraphs, "\n<p>"), build)
}

func TestMinor(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	paragraph := func(n int) string {
		var b strings.Builder
		for range n {
			fmt.Fprintf(&b, "w%d ", r.IntN(2000))
		}
		return b.String()
	}
	const pages = 60
	s := newSidecar(t, t.TempDir())
	texts := make([][]string, pages)
	name := func(i int) string { return fmt.Sprintf("d%d/p%d.html", i%7, i) }
	for i := range texts {
		for range 1 + r.IntN(12) {
			texts[i] = append(texts[i], paragraph(5+r.IntN(40)))
		}
		s.write(name(i), somePage(r, texts[i], 0))
	}
	s.look()
	digest := s.send(build(t, "minor"))
	start := s.journal.Head()
	major := make(map[string]float64)
	for i := range texts {
		before := words(name(i), []byte(somePage(r, texts[i], 0)))
		k := r.IntN(len(texts[i]))
		switch i % 6 { // only the build number, a word, a new paragraph, a deleted one, half a paragraph, everything
		case 1:
			texts[i][k] = strings.Replace(texts[i][k], "w1", "W1", 1)
		case 2:
			texts[i] = append(texts[i], paragraph(30))
		case 3:
			texts[i] = append(texts[i][:k], texts[i][k+1:]...)
		case 4:
			texts[i][k] = texts[i][k][len(texts[i][k])/2:] + paragraph(3)
		case 5:
			texts[i] = []string{paragraph(50)}
		}
		page := somePage(r, texts[i], 1)
		s.write(name(i), page)
		if share := changed(before, words(name(i), []byte(page))); share >= least {
			major["/"+name(i)] = share
		}
	}
	s.write("new.html", somePage(r, []string{paragraph(9)}, 1))
	s.must(os.Remove(filepath.Join(s.root, "new.html")))
	s.write("new2.html", somePage(r, []string{paragraph(9)}, 1))
	s.look()
	all := s.changes(start, nil)
	if len(all) != pages+1 {
		t.Fatalf("%d changes in all", len(all))
	}
	got := s.changes(start, url.Values{"agent": {digest}})
	missed, minor := len(major), 0
	for _, c := range got {
		share, ok := major[s.path(c.Item.URL)]
		if ok {
			missed--
		}
		if c.Op == protocol.Create {
			if c.output != nil {
				t.Errorf("%s is new but has the output %s", c.Item.URL, c.output)
			}
			continue
		}
		var said struct{ Share float64 }
		if err := json.Unmarshal(c.output, &said); err != nil || said.Share < least || said.Share < share-1e-9 {
			t.Errorf("%s has the output %s, %v; %.3f of its words changed", c.Item.URL, c.output, err, share)
		}
		if !ok {
			minor++
		}
	}
	t.Logf("%d changes, %d major; told %d, of them %d minor", len(all), len(major), len(got), minor)
	if missed != 0 {
		t.Errorf("%d of %d major changes were not delivered", missed, len(major))
	}
	if len(major) < 10 || minor > len(all)/5 {
		t.Errorf("%d minor changes were delivered, of %d", minor, len(all)-len(major))
	}
	if again := s.changes(start, url.Values{"agent": {digest}, "prefix": {"/d1/"}}); len(again) == 0 || len(again) >= len(got) {
		t.Errorf("below /d1/ %d changes were delivered, of %d", len(again), len(got))
	}
}

var releases = flag.String("versions", "", "for TestPointReleases: directories of versions of one site, the oldest first, separated by commas")

// TestPointReleases needs versions of a real site, for example the point releases of linux-doc-6.1:
//
//	for v in 6.1.176-1 6.1.187-1 6.1.190-1; do
//		apt-get download linux-doc-6.1=$v && dpkg-deb -x linux-doc-6.1_${v}_all.deb $v
//	done
//	D=usr/share/doc/linux-doc-6.1/html
//	go test ./examples/agents -run PointReleases -v -args -versions $PWD/6.1.176-1/$D,$PWD/6.1.187-1/$D,$PWD/6.1.190-1/$D
func TestPointReleases(t *testing.T) {
	if *releases == "" {
		t.Skip("no directories named: see the comment of this test")
	}
	list := strings.Split(*releases, ",")
	root := filepath.Join(t.TempDir(), "www")
	publish := func(version string) {
		t.Helper()
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		err := filepath.WalkDir(version, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".html") {
				return err
			}
			rel, err := filepath.Rel(version, name)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			to := filepath.Join(root, rel)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			return os.WriteFile(to, b, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	publish(list[0])
	s := newSidecar(t, root)
	digest := s.send(build(t, "minor"))
	events, sent := 0, 0
	for i := 1; i < len(list); i++ {
		start := s.journal.Head()
		publish(list[i])
		s.look()
		all := s.changes(start, nil)
		begun := time.Now()
		got := s.changes(start, url.Values{"agent": {digest}})
		took := time.Since(begun)
		tells, without := make(map[string]bool), 0
		for _, c := range got {
			tells[c.Item.URL] = true
			if c.output == nil {
				without++
			}
		}
		any, major, missed, news := 0, 0, 0, 0
		for _, c := range all {
			if c.Op != protocol.Update {
				news++
				if !tells[c.Item.URL] {
					t.Errorf("%s of %s was not delivered", c.Op, c.Item.URL)
				}
				continue
			}
			name := strings.TrimPrefix(s.path(c.Item.URL), "/")
			if name == "" || strings.HasSuffix(name, "/") {
				name += "index.html"
			}
			before, err := os.ReadFile(filepath.Join(list[i-1], filepath.FromSlash(name)))
			s.must(err)
			after, err := os.ReadFile(filepath.Join(list[i], filepath.FromSlash(name)))
			s.must(err)
			if bytes.Equal(before, after) {
				t.Errorf("%s did not change", name)
			}
			share := changed(words(name, before), words(name, after))
			if share > 0 {
				any++
			}
			if share >= least {
				major++
				if !tells[c.Item.URL] {
					missed++
					t.Errorf("%s: %.3f of the words changed, but no change was delivered", name, share)
				}
			}
		}
		t.Logf("%s: %d changes, %d of them no updates; the words of %d changed, of %d by %v or more; told %d, of them %d without its word, missed %d; the agent took %v",
			list[i], len(all), news, any, major, least, len(got), without, missed, took.Round(time.Second))
		events, sent = events+len(all), sent+len(got)
	}
	t.Logf("in all %d of %d changes delivered", sent, events)
	if 5*sent > events {
		t.Errorf("delivered %d of %d changes: more than a fifth", sent, events)
	}
}
