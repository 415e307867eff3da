// Package docroot makes docroots to crawl from those on a machine, edits them, and finds independently which
// of their pages are linked.
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

// A Docroot contains only pages: not the images and styles, which only some crawlers fetch.
type Docroot struct {
	Path string

	// Pages are all pages, as sorted request paths: index.html is its directory.
	Pages []string
}

// Copy makes a docroot in a directory from the pages of another. Files are hard-linked where the file system
// permits; Edit accounts for that.
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
		// The target of a symbolic link becomes a page of its own.
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

// copyFile preserves the date, which determines Last-Modified.
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

// File returns the file of a path, as a web server finds it. A path can be written in more than one way:
// pages are the same if their files are.
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

// Edit adds a paragraph at the end of a page's body, and returns the page. A new file replaces the old one.
// Its date is a moment later, or now if that is later.
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

// A Survey holds the pages reachable by links from the front page.
type Survey struct {
	Pages []string // paths as written in links, sorted
	Depth int      // link distance of the farthest page
	Bytes int64    // of all pages together
}

// Survey reads the files and follows their links: the pages that a crawler must fetch. It uses the HTML
// reader of the site side, not the crawler's.
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
