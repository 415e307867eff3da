package static_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/server"
)

const another = "the existing file is not Parley's: move it away, or choose another path"

// An output with a wrong path, or where another program writes, replaces no file that it did not write: not
// at once, and not at the next try.
func TestOutputsReplaceNoOtherFiles(t *testing.T) {
	const (
		page   = "<!DOCTYPE html>\n<title>Written by hand</title>\n"
		config = "# Pages of our site\nevents {}\nhttp { server { listen 80; } }\n"
		rdf    = `<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"></rdf:RDF>`
	)
	long := "<!-- " + strings.Repeat("x", 10_000) + " -->"
	site := &static.Sitemap{Base: webBase}
	for name, c := range map[string]struct {
		out    func(path string) server.Output
		beside string   // suffix of the existing one among the output's files
		theirs []string // contents that it must not replace
		ours   []string // contents that it may replace, besides its own
	}{
		"sitemap": {
			out:    func(path string) server.Output { s := *site; s.Path = path; return &s },
			theirs: []string{page, rdf, "https://www.site.example/a\n", "<?xml", "<?xml version='1.0'?><html/>", "<!-- urlset -->", "<urlsets/>", "\x00", long + "<urlset/>", "\x1f\x8b"},
			ours:   []string{"", " \n", "\uFEFF<?xml version='1.0'?>\n<?xml-stylesheet href='s.xsl'?><!-- a --> <urlset>", "<sitemapindex\n>"},
		},
		"part of a sitemap": {
			out: func(path string) server.Output {
				s := *site
				s.Path, s.MaxURLs = path+".xml", 2
				return &s
			},
			beside: "-0002.xml",
			theirs: []string{page},
			ours:   []string{"<urlset/>"},
		},
		"compressed part": {
			out: func(path string) server.Output {
				s := *site
				s.Path, s.MaxURLs, s.Gzip = path+".xml", 2, true
				return &s
			},
			beside: "-0002.xml.gz",
			theirs: []string{page},
			ours:   []string{"\x1f\x8b", ""},
		},
		"sibling of a sitemap": {
			out: func(path string) server.Output {
				s := *site
				s.Path, s.Precompress = path, true
				return &s
			},
			beside: ".zst",
			theirs: []string{page, "\x28\xb5"},
			ours:   []string{"\x28\xb5\x2f\xfd"},
		},
		"RSS": {
			out:    func(path string) server.Output { return &static.Feeds{RSS: path, Base: webBase} },
			theirs: []string{page, rdf, `<urlset/>`, `{"version": "1.2", "name": "of a package"}`, `{`, `["https://jsonfeed.org/version/1"]`},
			ours:   []string{"", "<rss version='0.91'>", "<feed xmlns='http://www.w3.org/2005/Atom'>", `{ "title": "a", "version" : "https://jsonfeed.org/version/1" }`},
		},
		"Atom": {
			out:    func(path string) server.Output { return &static.Feeds{Atom: path, Base: webBase} },
			theirs: []string{page},
		},
		"JSON Feed": {
			out:    func(path string) server.Output { return &static.Feeds{JSON: path, Base: webBase} },
			theirs: []string{page},
		},
		"sibling of a feed": {
			out: func(path string) server.Output {
				return &static.Feeds{JSON: path, Base: webBase, Precompress: true}
			},
			beside: ".gz",
			theirs: []string{page},
		},
		"nginx include": {
			out:    func(path string) server.Output { return &static.Nginx{Path: path, Base: webBase} },
			theirs: []string{page, config, "server {}", "# Parley writes this file from the site's journal:"},
			ours:   []string{"", "# Pages of http://old.example/ that are\n# Parley writes this file from the site's journal: and so on"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			try := func(text string, replaced bool) {
				t.Helper()
				w := newWeb(t)
				w.pages(5)
				path := filepath.Join(w.root, "out")
				there := path + c.beside
				w.must(os.WriteFile(there, []byte(text), 0o600))
				for i := range 2 {
					_, err := c.out(path).Write(t.Context(), w.journal)
					if replaced {
						w.must(err)
					} else if err == nil || !strings.Contains(err.Error(), there+": "+another) {
						t.Errorf("%.60q, try %d: error %v", text, i, err)
					}
				}
				if got, err := os.ReadFile(there); err != nil || (string(got) == text) == replaced {
					t.Errorf("%.60q became %.60q, %v", text, got, err)
				}
				if names := w.names(); !replaced && fmt.Sprint(names) != fmt.Sprint([]string{filepath.Base(there)}) {
					t.Errorf("%.60q: the docroot contains %v", text, names)
				}
				if replaced {
					return
				}
				w.must(os.Rename(there, filepath.Join(w.dir, "theirs")))
				must.Get(c.out(path).Write(t.Context(), w.journal))

				// A file that we wrote remains ours after it was damaged, and after the state was lost.
				made := must.Get(os.ReadFile(there))
				must.Write(w, there, "spoiled")
				must.Get(c.out(path).Write(t.Context(), w.journal))
				if got, err := os.ReadFile(there); err != nil || !bytes.Equal(got, made) {
					t.Errorf("spoiled, and then %.60q, %v", got, err)
				}
				w.must(os.Remove(filepath.Join(w.dir, "state")))
				w.open()
				w.pages(6)
				must.Get(c.out(path).Write(t.Context(), w.journal))
			}
			for _, text := range c.theirs {
				try(text, false)
			}
			for _, text := range c.ours {
				try(text, true)
			}
		})
	}
}
