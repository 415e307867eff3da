package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/internal/graph"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/protocol"
)

// ApacheDoc returns the docroot that PARLEY_APACHE_DOC names: the manual of Debian's apache2-doc, a directory for each language.
func ApacheDoc(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("PARLEY_APACHE_DOC")
	if _, err := os.Stat(filepath.Join(dir, "en", "index.html")); dir == "" || err != nil {
		Lacks(t, "PARLEY_APACHE_DOC is not the manual of apache2-doc")
	}
	return dir
}

// Web returns the graph of the pages below docroots, each of which is the host of the same number and has pages, and the file of each page. Links stand
// in the order in which a page has them, each once; those to other hosts, and to what is no page, are left out, as are symbolic links.
func Web(t testing.TB, hosts, docroots []string) (g *graph.Graph, files []string) {
	t.Helper()
	g = &graph.Graph{First: []uint32{0}, Hosts: hosts}
	number, links := map[string]uint32{}, [][]string{}
	for h, root := range docroots {
		for file, body := range Pages(t, root) {
			if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
				continue
			}
			path, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			path = "/" + filepath.ToSlash(path)
			url, err := protocol.CanonicalURL("", "http://"+hosts[h]+path)
			if err != nil {
				t.Fatal(err)
			}
			number[url] = uint32(len(files))
			files, links = append(files, file), append(links, html.Read(url, body, html.Options{Links: true}).Links)
			g.Host, g.Path = append(g.Host, uint32(h)), append(g.Path, path)
		}
		if len(g.Host) == 0 || g.Host[len(g.Host)-1] != uint32(h) {
			t.Fatalf("%s has no pages", root)
		}
	}
	for _, list := range links {
		met := map[uint32]bool{}
		for _, link := range list {
			url, err := protocol.CanonicalURL("", link)
			if to, ok := number[url]; err == nil && ok && !met[to] {
				met[to] = true
				g.To = append(g.To, to)
			}
		}
		g.First = append(g.First, uint32(len(g.To)))
	}
	return g, files
}
