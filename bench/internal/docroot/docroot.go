// Package docroot makes docroots to crawl of those on a machine, edits them,
// and finds by itself which of their pages links lead to.
package docroot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/html"
)

// A Docroot has nothing but pages in it: what they look like is another
// matter, that some crawlers ask for and others do not.
type Docroot struct {
	Path string

	// Pages are all of them, as the paths of requests, sorted: index.html is
	// its directory.
	Pages []string
}

// Copy makes a docroot in a directory of the pages of another. Files are
// linked where the file system can, which Edit knows.
func Copy(from, to string) (*Docroot, error) {
	d := &Docroot{Path: to}
	err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".html" {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		// What a link leads to is a page of its own.
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			return err
		}
		target := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		d.Pages = append(d.Pages, pathOf(rel))
		if os.Link(name, target) == nil {
			return nil
		}
		return copyFile(name, target)
	})
	slices.Sort(d.Pages)
	if err == nil && len(d.Pages) == 0 {
		err = fmt.Errorf("%s has no .html files", from)
	}
	return d, err
}

// copyFile keeps the date, of which Last-Modified is made.
func copyFile(from, to string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, b, 0o644), os.Chtimes(to, st.ModTime(), st.ModTime()))
}

func pathOf(rel string) string {
	p := "/" + filepath.ToSlash(rel)
	if path.Base(p) == "index.html" {
		p = strings.TrimSuffix(p, "index.html")
	}
	return (&url.URL{Path: p}).EscapedPath()
}

// File is where a path leads to, as a web server finds it. There is more than
// one manner of writing a path: pages are the same if their files are.
func (d *Docroot) File(page string) string {
	p, err := url.PathUnescape(page)
	if err != nil {
		return ""
	}
	if strings.HasSuffix(p, "/") {
		p += "index.html"
	}
	return filepath.Join(d.Path, filepath.FromSlash(path.Clean(p)))
}

// Edit adds a paragraph to a page, at the end of its body, and returns the
// page. Another file takes the place of the old one. Its date is a moment
// later, or now if now is.
func (d *Docroot) Edit(page, text string) ([]byte, error) {
	name := d.File(page)
	st, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	at := bytes.LastIndex(b, []byte("</body>"))
	if at < 0 {
		at = len(b)
	}
	b = slices.Concat(b[:at], fmt.Appendf(nil, "<p>%s</p>\n", text), b[at:])
	date := st.ModTime().Add(time.Second)
	if now := time.Now(); now.After(date) {
		date = now
	}
	tmp := filepath.Join(filepath.Dir(name), ".new")
	if err := errors.Join(os.WriteFile(tmp, b, 0o644), os.Chtimes(tmp, date, date)); err != nil {
		return nil, err
	}
	return b, os.Rename(tmp, name)
}

// A Survey is what links lead to from the front page.
type Survey struct {
	Pages []string // as the paths that links name, sorted
	Depth int      // of the farthest of them
	Bytes int64    // of all together
}

// Survey reads the files and follows their links: what a crawler must ask for.
// It takes the reader of HTML that the site side uses, not the crawler's.
func (d *Docroot) Survey() Survey {
	const origin = "http://site.test"
	var s Survey
	seen := map[string]bool{}
	next := []string{"/"}
	for depth := 0; len(next) > 0; depth++ {
		level := next
		next = nil
		for _, p := range level {
			b, err := os.ReadFile(d.File(p))
			if seen[p] || err != nil { // a broken link, or a directory without a page
				continue
			}
			seen[p], s.Depth = true, depth
			s.Bytes += int64(len(b))
			for _, l := range html.Read(origin+p, b, html.Options{Links: true}).Links {
				if u, err := url.Parse(l); err == nil && u.Host == "site.test" && u.RawQuery == "" && !seen[u.EscapedPath()] {
					next = append(next, u.EscapedPath())
				}
			}
		}
	}
	for p := range seen {
		s.Pages = append(s.Pages, p)
	}
	slices.Sort(s.Pages)
	return s
}
