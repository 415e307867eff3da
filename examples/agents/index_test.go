package agents

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"mime"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/index"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/protocol"
)

// gathered returns the index of a site, made by an agent at the site, and the site's cursor.
func (s *sidecar) gathered(agent string) ([]byte, protocol.Cursor) {
	s.Helper()
	digest, err := protocol.ParseDigest(agent)
	s.must(err)
	var b index.Builder
	defer b.Close()
	src := &client.Source{Base: s.web.URL + "/", Token: token, Filter: protocol.Filter{Agent: digest}}
	at, err := client.RunAgent(s.Context(), src, func(o protocol.AgentOutput) error {
		if o.Failed != "" || o.Output == nil {
			return fmt.Errorf("%s: %q, %d bytes", o.URL, o.Failed, len(o.Output))
		}
		return b.AddIndex(bytes.NewReader(o.Output))
	})
	s.must(err)
	var out bytes.Buffer
	s.must(b.Write(s.Context(), &out))
	return out.Bytes(), at
}

// addAll adds all pages of a docroot, as a crawler that fetches them would.
func (s *sidecar) addAll(b *index.Builder) {
	s.Helper()
	s.must(filepath.WalkDir(s.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		page, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.root, name)
		if err != nil {
			return err
		}
		place := "/" + filepath.ToSlash(rel)
		if dir, file := path.Split(place); file == "index.html" {
			place = dir
		}
		u := url.URL{Path: place}
		return b.AddPage(index.Doc{URL: s.web.URL + u.EscapedPath(), Digest: sha256.Sum256(page)}, mime.TypeByExtension(path.Ext(name)), page)
	}))
}

func merged(t *testing.T, parts ...[]byte) []byte {
	t.Helper()
	var open []index.Opener
	for _, p := range parts {
		open = append(open, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p)), nil })
	}
	var out bytes.Buffer
	if err := index.Merge(t.Context(), &out, open...); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func opened(t *testing.T, b []byte) *index.Index {
	t.Helper()
	x, err := index.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// The indexes that three sites make of themselves, merged, give the same results as one
// built of all their pages (C15).
func TestPartialIndexes(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	roots := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for k, root := range roots[:2] {
		for i := range 120 {
			var text strings.Builder
			for range r.IntN(300) {
				fmt.Fprintf(&text, "%s%d ", []string{"common", "word", "site" + fmt.Sprint(k)}[r.IntN(3)], r.IntN(60))
			}
			name := filepath.Join(root, fmt.Sprintf("d%d", i%5), fmt.Sprintf("page %d.html", i))
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, fmt.Appendf(nil, "<html><title>%d</title><body><nav>menu</nav><main><p>%s</main>", i, &text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, _ := filepath.Glob(machine.GitDoc(t) + "/*.html")
	for _, name := range list[:min(len(list), 150)] {
		page, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(roots[2], filepath.Base(name)), page, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var union index.Builder
	defer union.Close()
	var parts [][]byte
	var sites []*sidecar
	for _, root := range roots {
		s := newSidecar(t, root)
		part, _ := s.gathered(s.send(build(t, "index")))
		parts, sites = append(parts, part), append(sites, s)
		s.addAll(&union)
	}
	var whole bytes.Buffer
	if err := union.Write(t.Context(), &whole); err != nil {
		t.Fatal(err)
	}
	all := merged(t, parts...)
	x, y := opened(t, all), opened(t, whole.Bytes())
	words := make(map[string]bool)
	for _, name := range append(list[:20:20], filepath.Join(roots[0], "d1", "page 1.html"), filepath.Join(roots[1], "d2", "page 2.html")) {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for w := range index.Words(index.Text("http://localhost/", "text/html", page)) {
			words[w] = true
		}
	}
	known := slices.Sorted(maps.Keys(words))
	answered := 0
	for range 1000 {
		var q []string
		for range 1 + r.IntN(3) {
			q = append(q, known[r.IntN(len(known))])
		}
		question := strings.Join(q, " ")
		a, n, err := x.Search(question, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, m, err := y.Search(question, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n != m || !slices.Equal(a, b) {
			t.Fatalf("%q: %d pages in the merged index, %d in the index of all pages", question, n, m)
		}
		if n > 0 {
			answered++
		}
	}
	t.Logf("%d pages, %d terms, %d bytes; %d of 1000 questions have an answer", x.Docs, x.Terms, len(all), answered)
	if answered < 300 {
		t.Errorf("only %d of 1000 questions have an answer", answered)
	}
	if !bytes.Equal(all, whole.Bytes()) {
		t.Errorf("the merged index of %d bytes differs from the index of all pages of %d", len(all), whole.Len())
	}

	// Later changes come with the indexes of their pages, which are merged into the old index.
	s := sites[0]
	digest := s.send(build(t, "index"))
	start := s.journal.Head()
	s.write("d1/page 1.html", "<p>entirely other words: zanzibar")
	s.write("new.html", "<p>zanzibar zanzibar")
	s.must(os.Remove(filepath.Join(s.root, "d2", "page 2.html")))
	s.must(os.Rename(filepath.Join(s.root, "d3", "page 3.html"), filepath.Join(s.root, "d3", "moved.html")))
	s.look()
	_, err := s.publisher.AcceptDeletions(t.Context())
	s.must(err)
	var news index.Builder
	defer news.Close()
	for _, c := range s.changes(start, url.Values{"agent": {digest}}) {
		if c.Op == protocol.Delete {
			s.must(news.Add(index.Doc{URL: c.Item.URL, Gone: true}, nil))
			continue
		}
		if c.From != "" {
			s.must(news.Add(index.Doc{URL: c.From, Gone: true}, nil))
		}
		s.must(news.AddIndex(bytes.NewReader(c.output)))
	}
	var newer bytes.Buffer
	s.must(news.Write(t.Context(), &newer))
	x = opened(t, merged(t, all, newer.Bytes()))
	now, _ := s.gathered(digest)
	y = opened(t, merged(t, now, parts[1], parts[2]))
	if x.Gone != 2 || x.Docs-x.Gone != y.Docs || x.Words != y.Words {
		t.Errorf("with the changes merged there are %d pages, %d of them gone, with %d words; want %d with %d", x.Docs, x.Gone, x.Words, y.Docs, y.Words)
	}
	for _, question := range []string{"zanzibar", "common1", "common2 word3", "site05", "git commit"} {
		a, _, err := x.Search(question, 0)
		s.must(err)
		b, _, err := y.Search(question, 0)
		s.must(err)
		if len(a) == 0 || !slices.Equal(a, b) {
			t.Errorf("%q: %d pages with the changes merged, %d in a new index", question, len(a), len(b))
		}
	}
}
