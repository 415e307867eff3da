package endtoend

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// schemes are the schemes of table 6.1 (C02), as options of "crawler follow".
var schemes = []struct {
	name  string
	flags []string
}{
	{"push meta", []string{"--as", "meta"}},
	{"push delta", []string{"--as", "delta"}},
	{"push page", []string{"--as", "page"}},
	{"push batch", []string{"--as", "batch", "--every", "1s"}},
	{"push site", []string{"--as", "site"}},
	{"push agent", []string{"--as", "page", "--token", agentToken, "--program", agentFile}},
	{"poll manifest", []string{"--as", "meta", "--via", "manifest", "--poll", "1s"}},
	{"poll meta", []string{"--as", "meta", "--via", "changes"}},
	{"poll delta", []string{"--as", "delta", "--via", "changes"}},
	{"poll page", []string{"--as", "page", "--via", "changes"}},
	{"poll batch", []string{"--as", "batch", "--via", "changes"}},
	{"poll site", []string{"--as", "site", "--via", "changes"}},
	{"auto", nil},

	// These schemes deliver only pages at the top level.
	{"push filter meta", []string{"--as", "meta", "--only", "maxdepth=1"}},
	{"push filter delta", []string{"--as", "delta", "--where", "change.depth == 1"}},
	{"push filter batch", []string{"--as", "batch", "--every", "1s", "--only", "maxdepth=1"}},
	{"poll filter page", []string{"--as", "page", "--via", "changes", "--where", "change.depth == 1"}},
	{"poll filter batch", []string{"--as", "batch", "--via", "changes", "--only", "maxdepth=1"}},
}

const (
	agentToken = "a-token-of-the-test"
	agentFile  = "AGENT" // placeholder for the file
)

// TestEverySchemeKeepsTheSameMirror runs all schemes over one random history of a real docroot: two releases
// of git-doc if $PARLEY_RELEASES has them, and generated edits. Connections are cut and messages dropped at
// random. Each scheme ends with the same mirror, byte for byte, and the delivered metadata equal those of the
// manifest.
func TestEverySchemeKeepsTheSameMirror(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 5))
	r := newRig(t)
	chaos := newChaos(t, strings.Trim(strings.TrimPrefix(r.web.Base, "http://"), "/"), seed)
	r.base = chaos.base()
	older, newer := "", ""
	if !testing.Short() {
		older, newer = releases(t)
	}
	if older == "" {
		for i := range 150 {
			name := fmt.Sprintf("p%d.html", i)
			if i%3 > 0 {
				name = fmt.Sprintf("d%d/%s", i%7, name)
			}
			r.write(name, pageOf(rnd, 20+rnd.IntN(400)))
		}
	} else {
		r.must(os.CopyFS(r.root, os.DirFS(older)))
	}
	agent, callers := filepath.Join(t.TempDir(), "index.wasm"), filepath.Join(t.TempDir(), "callers")
	r.must(os.WriteFile(callers, []byte("tester "+agentToken+" agents\n"), 0o600))
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", agent, "../../examples/agents/index")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if msg, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, msg)
	}
	r.startNotifier("--preset", "high", "--trust-docroot", "--per-address", "64", "--callers", callers, "--heartbeat", "1s", "--grace", "300ms", "--write-every", "300ms")

	dir := t.TempDir()
	var crawlers []*program
	t.Cleanup(func() {
		for _, c := range crawlers {
			c.stop()
		}
	})
	for _, s := range schemes {
		args := append([]string{"follow", r.base, "--into", filepath.Join(dir, s.name), "--log-level", "info"}, s.flags...)
		if i := slices.Index(args, agentFile); i > 0 {
			args[i] = agent
		}
		crawlers = append(crawlers, start(t, nil, "crawler", args...))
	}
	same := func(when string) {
		t.Helper()
		for i, s := range schemes {
			r.mirror, r.crawler = filepath.Join(dir, s.name), crawlers[i]
			t.Logf("%s: %s", when, s.name)
			if strings.Contains(s.name, "filter") {
				r.identicalBut(func(page string) bool { return strings.Contains(page, "/") })
			} else {
				r.identical()
			}
			chaos.calm.Store(true) // one mirror is complete: the others have the rest of their waits
		}
		r.crawler = nil
	}
	told := tellers(t, r.base)
	same("at first")

	chaos.calm.Store(false)
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		for range 30 {
			r.alter(rnd)
		}
		r.everything(rnd)
	}
	if newer != "" {
		r.must(replaceWith(r.root, newer))
	}
	for range 20 {
		r.alter(rnd)
	}
	same("in the end")
	t.Logf("%d connections were cut, and %d messages dropped", chaos.cuts.Load(), chaos.drops.Load())
	if chaos.cuts.Load() == 0 || chaos.drops.Load() == 0 {
		t.Error("no connection was cut: the test proves nothing")
	}
	for name, w := range told {
		r.until(name+" has the metadata of the manifest", func() bool { return w.same(t, r.web.Base, r.base) })
	}
}

// Without evidence that bytes may leave, as from a loopback address, no form delivers any: a follower fetches
// the pages from the web server, and misses none.
func TestSchemesWithoutBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: the schemes with bytes are tested")
	}
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 6))
	r := newRig(t)
	for i := range 30 {
		r.write(fmt.Sprintf("d%d/p%d.html", i%3, i), pageOf(rnd, 300))
	}
	r.startNotifier("--preset", "high", "--per-address", "64", "--grace", "300ms", "--write-every", "300ms")
	head := func() protocol.Cursor {
		d := must.Get(client.Discover(t.Context(), &client.Source{Base: r.base}))
		return d.Head
	}
	begin := head()
	dir := t.TempDir()
	bring := []string{"push page", "push delta", "push site", "poll batch"}
	crawlers := make(map[string]*program)
	for _, s := range schemes {
		if slices.Contains(bring, s.name) {
			crawlers[s.name] = start(t, nil, "crawler", append([]string{"follow", r.base, "--into", filepath.Join(dir, s.name)}, s.flags...)...)
			defer crawlers[s.name].stop()
		}
	}
	same := func() {
		t.Helper()
		for name, c := range crawlers {
			r.mirror, r.crawler = filepath.Join(dir, name), c
			r.identical()
		}
		r.crawler = nil
	}
	same()
	for range 10 {
		r.alter(rnd)
	}
	same()
	for _, as := range []string{"page", "delta"} {
		resp, err := http.Get(r.base + "parley/changes?as=" + as + "&after=" + begin.String())
		r.must(err)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		r.must(err)
		m := must.Get(protocol.ParseMessage(b))
		bodies := 0
		for _, body := range m.Bodies { // a long page is only named, and a follower can fetch it from the web server
			if !body.IsZero() && body.Href == "" {
				bodies++
			}
		}
		if len(m.Changes) == 0 || bodies > 0 {
			t.Errorf("as=%s: %d changes, with bodies %d", as, len(m.Changes), bodies)
		}
	}
}

// releases returns the docroots of two releases of git-doc, "" if there are none.
func releases(t *testing.T) (older, newer string) {
	dir := os.Getenv("PARLEY_RELEASES")
	if dir == "" {
		return "", ""
	}
	list, err := filepath.Glob(filepath.Join(dir, "git-doc", "*"))
	if err != nil || len(list) < 2 {
		t.Fatalf("PARLEY_RELEASES=%s: want two versions below git-doc (%v)", dir, err)
	}
	slices.Sort(list)
	return list[0], list[1]
}

// replaceWith replaces the files of the docroot with those of another release.
func replaceWith(root, release string) error {
	return filepath.WalkDir(release, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(release, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		to := filepath.Join(root, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to+".new~", text, 0o644); err != nil {
			return err
		}
		return os.Rename(to+".new~", to)
	})
}

// pageOf returns a page with that many words.
func pageOf(rnd *rand.Rand, words int) string {
	var b strings.Builder
	b.WriteString("<html><head><title>A page</title></head><body>\n<p>")
	for i := range words {
		fmt.Fprintf(&b, "w%d ", rnd.IntN(5000))
		if i%40 == 39 {
			b.WriteString("</p>\n<p>")
		}
	}
	b.WriteString("</p></body></html>\n")
	return b.String()
}

// alter makes one random change to the docroot.
func (r *rig) alter(rnd *rand.Rand) {
	r.t.Helper()
	var pages []string
	for p := range tree(r.t, r.root) {
		pages = append(pages, p)
	}
	slices.Sort(pages)
	page := pages[rnd.IntN(len(pages))]
	switch rnd.IntN(10) {
	case 0:
		r.write(fmt.Sprintf("new%d/n%d.html", rnd.IntN(5), rnd.IntN(1<<30)), pageOf(rnd, 300))
	case 1:
		r.must(os.Remove(r.path(page)))
	case 2:
		to := fmt.Sprintf("moved%d/m%d.html", rnd.IntN(5), rnd.IntN(1<<30))
		r.must(os.MkdirAll(filepath.Dir(r.path(to)), 0o755))
		r.must(os.Rename(r.path(page), r.path(to)))
	case 3: // larger than a message may carry
		r.write(page, pageOf(rnd, 80_000))
	case 4:
		r.write(page, pageOf(rnd, 100))
	default:
		text := must.Get(os.ReadFile(r.path(page)))
		r.write(page, strings.Replace(string(text), "</body>", fmt.Sprintf("<p>%d</p></body>", rnd.IntN(1<<30)), 1)+" ")
	}
}

// everything changes three of four pages.
func (r *rig) everything(rnd *rand.Rand) {
	r.t.Helper()
	for p := range tree(r.t, r.root) {
		if rnd.IntN(4) > 0 {
			text := must.Get(os.ReadFile(r.path(p)))
			r.write(p, string(text)+fmt.Sprintf("<!-- %d -->\n", rnd.IntN(1<<30)))
		}
	}
}

// A told is the metadata that a reader has of a site: it fetched no page for that.
type told struct {
	mu    sync.Mutex
	items map[string]protocol.Item
}

// tellers follow a site by metadata alone, by push and by poll, until the test ends.
func tellers(t *testing.T, base string) map[string]*told {
	list := map[string]*told{}
	for name, src := range map[string]*client.Source{
		"push": {Base: base, As: protocol.AsMeta},
		"poll": {Base: base, As: protocol.AsMeta, NoStream: true},
	} {
		w := &told{items: map[string]protocol.Item{}}
		list[name] = w
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			var listed map[string]bool
			for step, err := range client.Follow(ctx, src, protocol.Cursor{}) {
				if err == nil {
					listed = w.take(step, listed)
				}
			}
		})
		t.Cleanup(func() { stop(); wg.Wait() })
	}
	return list
}

// take applies a step. listed are the URLs of the snapshot that is arriving.
func (w *told) take(s client.Step, listed map[string]bool) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Reset {
		listed = map[string]bool{}
	}
	for _, c := range s.Changes {
		if listed != nil {
			listed[c.Item.URL] = true
		}
		switch c.Op {
		case protocol.Delete:
			delete(w.items, c.Item.URL)
			continue
		case protocol.Move:
			delete(w.items, c.From)
		}
		w.items[c.Item.URL] = c.Item
	}
	if s.Whole {
		for u := range w.items {
			if !listed[u] {
				delete(w.items, u)
			}
		}
		listed = nil
	}
	return listed
}

// same reports whether the manifest, served at from, has the same metadata of the same pages.
func (w *told) same(t *testing.T, from, base string) bool {
	t.Helper()
	resp := must.Get(http.Get(from + "robots.rdf"))
	defer resp.Body.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for m := protocol.NewManifestReader(resp.Body, protocol.ManifestOptions{URL: base + "robots.rdf"}); ; {
		rec, err := m.Next()
		if err == io.EOF {
			return n == len(w.items)
		} else if err != nil {
			t.Fatal(err)
		}
		if rec.Gone != nil {
			continue
		}
		n++
		i, ok := w.items[rec.Item.URL]
		if !ok || i.Digest != rec.Item.Digest || !i.Modified.Equal(rec.Item.Modified) || i.Length != rec.Item.Length || i.Type != rec.Item.Type {
			return false
		}
	}
}
