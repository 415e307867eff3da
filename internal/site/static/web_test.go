package static_test

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

const webBase = "https://www.site.example/"

// A web is a docroot, its journal, and a Publisher that scans it.
type web struct {
	testing.TB
	dir, root string
	site      *server.Site
	journal   *server.Journal
	now       time.Time
}

func newWeb(t testing.TB) *web {
	dir := t.TempDir()
	w := &web{TB: t, dir: dir, root: filepath.Join(dir, "root"), now: time.Now().Truncate(time.Second)}
	w.must(os.Mkdir(w.root, 0o755))
	w.site = &server.Site{Docroot: w.root, Base: webBase, Features: headOf}
	w.open()
	return w
}

// headOf finds "noindex" and "canonical=URL" in a page; the first line is its title.
func headOf(_ string, page []byte, _ bool) (inventory.Features, error) {
	title, rest, _ := strings.Cut(string(page), "\n")
	_, canonical, _ := strings.Cut(rest, "canonical=")
	return inventory.Features{Title: title, NoIndex: strings.Contains(rest, "noindex"), Canonical: strings.TrimSpace(canonical)}, nil
}

// open opens the journal, as another process would.
func (w *web) open() {
	w.Helper()
	if w.journal != nil {
		w.must(w.journal.Close())
	}
	j := must.Get(journal.Open(filepath.Join(w.dir, "state"), nil))
	w.Cleanup(func() { j.Close() })
	w.journal = j
}

func (w *web) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// write writes a page with an mtime a minute after the previous one.
func (w *web) write(name, text string) {
	w.Helper()
	p := filepath.Join(w.root, name)
	must.Write(w, p, text)
	at := w.now.Add(-24 * time.Hour)
	w.must(os.Chtimes(p, at, at))
	w.now = w.now.Add(time.Minute)
}

func (w *web) remove(name string) {
	w.Helper()
	w.must(os.Remove(filepath.Join(w.root, name)))
}

// turn scans the docroot and writes the outputs, as a new process would. It returns how many outputs were
// written.
func (w *web) turn(outputs ...server.Output) int {
	w.Helper()
	p := w.publisher(outputs)
	must.Get(p.Turn(w.Context()))
	n := 0
	for _, o := range p.Status().Outputs {
		n += o.Writes
	}
	return n
}

func (w *web) publisher(outputs []server.Output) *server.Publisher {
	return &server.Publisher{Inventory: w.site, Journal: w.journal, Outputs: outputs, Now: func() time.Time { return w.now }}
}

// accept is turn, with every disappearance accepted.
func (w *web) accept(outputs ...server.Output) {
	w.Helper()
	must.Get(w.publisher(outputs).AcceptDeletions(w.Context()))
}

// pages fills the journal with n pages, without a docroot.
func (w *web) pages(n int) {
	w.Helper()
	var steps []journal.Step
	for i := range n {
		it := protocol.Item{URL: webBase + "p/" + string(rune('a'+i%26)) + "/" + strings.Repeat("x", i/26+1) + ".html", Length: -1,
			Digest: protocol.Sum([]byte{byte(i), byte(i >> 8)}), Modified: time.Unix(1.6e9+60*int64(i), 0).UTC()}
		steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it}})
	}
	w.append(steps...)
	w.must(w.journal.EndBaseline())
}

// stepOf returns a step dated a minute after the previous one. A significance below zero is unknown.
func (w *web) stepOf(op protocol.Op, url, from string, significance float64, content string) journal.Step {
	it := protocol.Item{URL: url, Length: -1, Digest: protocol.Sum([]byte(content)), Modified: w.now}
	w.now = w.now.Add(time.Minute)
	s := journal.Step{Op: op, From: from, Entry: journal.Entry{Item: it}}
	if significance >= 0 {
		s.Significance = protocol.SignificanceOf(significance)
	}
	return s
}

// step appends one step.
func (w *web) step(op protocol.Op, url, from string, significance float64, content string) {
	w.Helper()
	w.append(w.stepOf(op, url, from, significance, content))
}

func (w *web) append(steps ...journal.Step) {
	w.Helper()
	must.Get(w.journal.Append(w.Context(), steps))
}

// names returns the names in the docroot that are not pages.
func (w *web) names() (names []string) {
	w.Helper()
	list := must.Get(os.ReadDir(w.root))
	for _, e := range list {
		if !e.IsDir() && !strings.HasSuffix(e.Name(), ".html") && e.Name() != "robots.txt" {
			names = append(names, e.Name())
		}
	}
	return names
}

func (w *web) wantNames(what string, names ...string) {
	w.Helper()
	if got := w.names(); !slices.Equal(got, names) {
		w.Errorf("%s: the docroot has %v, want %v", what, got, names)
	}
}

func (w *web) read(name string) []byte {
	w.Helper()
	return must.Get(os.ReadFile(filepath.Join(w.root, name)))
}

// listed reads the sitemap with all its parts, and returns each page's date.
func (w *web) listed() map[string]string {
	w.Helper()
	return must.Get(readSitemap(w.root, "sitemap.xml"))
}

// readSitemap reads a sitemap from files as a crawler would over HTTP. A torn file or a missing part is an
// error.
func readSitemap(dir, name string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := coding.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r, all := sitemap.NewReader(in, sitemap.Options{URL: webBase + name}), make(map[string]string)
	for {
		e, err := r.Next()
		switch n, first := r.Skipped(); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		case n > 0:
			return nil, errors.Join(first...)
		case e.Foreign:
			return nil, errors.New("foreign " + e.Loc)
		case !e.Sitemap:
			all[e.Loc] = e.RawLastmod
			continue
		}
		part, err := readSitemap(dir, strings.TrimPrefix(e.Loc, webBase))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, part)
	}
}

// wantListed checks that the sitemap lists the journal's pages, except those in less.
func (w *web) wantListed(what string, less ...string) {
	w.Helper()
	v := must.Get(w.journal.View())
	defer v.Close()
	want := make(map[string]string)
	for e, err := range v.Entries() {
		w.must(err)
		if !slices.Contains(less, strings.TrimPrefix(e.Item.URL, webBase)) {
			want[e.Item.URL] = protocol.FormatDate(e.Item.Modified)
		}
	}
	got := w.listed()
	for _, m := range []map[string]string{got, want} {
		for u := range m {
			if got[u] != want[u] {
				w.Errorf("%s: the sitemap lists %s of %q, want %q", what, u, got[u], want[u])
				return
			}
		}
	}
	if len(got) != len(want) {
		w.Errorf("%s: the sitemap lists %d pages of %d", what, len(got), len(want))
	}
}

// wantSiblings checks that the file has siblings with its content, mtime and mode.
func (w *web) wantSiblings(name string) {
	w.Helper()
	info := must.Get(os.Stat(filepath.Join(w.root, name)))
	for _, ext := range []string{".gz", ".zst"} {
		f := must.Get(os.Open(filepath.Join(w.root, name+ext)))
		defer f.Close()
		z := must.Get(coding.NewReader(f))
		defer z.Close()
		b := must.Get(io.ReadAll(z))
		if !bytes.Equal(b, w.read(name)) {
			w.Errorf("%s%s has other content", name, ext)
		}
		i := must.Get(f.Stat())
		if !i.ModTime().Equal(info.ModTime()) || i.Mode() != info.Mode() {
			w.Errorf("%s%s: %v %v, its file %v %v", name, ext, i.ModTime(), i.Mode(), info.ModTime(), info.Mode())
		}
	}
}

// A look is the files' metadata as seen from outside.
type look map[string]os.FileInfo

func (w *web) look() look {
	w.Helper()
	l := make(look)
	w.must(filepath.WalkDir(w.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		l[p], err = d.Info()
		return err
	}))
	return l
}

// touched returns the names of the files that differ from before.
func (l look) touched(now look) (names []string) {
	for p, i := range now {
		if was, ok := l[p]; !ok || !os.SameFile(was, i) || !was.ModTime().Equal(i.ModTime()) || was.Size() != i.Size() {
			names = append(names, filepath.Base(p))
		}
	}
	for p := range l {
		if _, ok := now[p]; !ok {
			names = append(names, "-"+filepath.Base(p))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	return names
}
