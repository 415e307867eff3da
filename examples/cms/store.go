package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"
)

// A Page is one page of the site. It is public only if its Status is Public.
type Page struct {
	Slug     string    `json:"slug"` // its path, without the slash before it
	Title    string    `json:"title"`
	Body     string    `json:"body"`
	Status   Status    `json:"status"`
	Modified time.Time `json:"modified"`
}

// A Status says who may see a page.
type Status string

// The possible statuses.
const (
	Public  Status = "public"
	Draft   Status = "draft"   // nobody; its URL is answered with 404
	Private Status = "private" // editors, who have the password
)

// content is what the file contains, as JSON.
type content struct {
	Pages map[string]*Page  `json:"pages"`
	Moved map[string]string `json:"moved"` // old slug to new
	Home  time.Time         `json:"home"`  // when the list of pages changed
	Last  time.Time         `json:"last"`  // when anything changed; no two changes have the same time

	// Owed maps each path with a pending notice to the time of the notice. It is in one file with the pages,
	// so that no crash can separate a change from its pending notice.
	Owed map[string]time.Time `json:"owed"`
}

// A Store keeps pages in a file. It is safe for concurrent use.
type Store struct {
	path string
	owes chan struct{} // signals that a notice is pending

	mu sync.Mutex // guards c
	c  content
}

// OpenStore reads the file, if there is one.
func OpenStore(path string) (*Store, error) {
	s := &Store{path: path, owes: make(chan struct{}, 1)}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s.c)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	s.c.fill()
	return s, nil
}

func (c *content) fill() {
	if c.Pages == nil {
		c.Pages = map[string]*Page{}
	}
	if c.Moved == nil {
		c.Moved = map[string]string{}
	}
	if c.Owed == nil {
		c.Owed = map[string]time.Time{}
	}
}

// Page returns the page with a slug; if there is none, moved is the slug that it was renamed to, or empty.
func (s *Store) Page(slug string) (p Page, moved string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.c.Pages[slug]; p != nil {
		return *p, "", true
	}
	return p, s.c.Moved[slug], false
}

// Pages returns the pages with one of the given statuses, newest first, and when the list of public pages
// changed.
func (s *Store) Pages(with ...Status) (list []Page, changed time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.c.Pages {
		if slices.Contains(with, p.Status) {
			list = append(list, *p)
		}
	}
	slices.SortFunc(list, func(a, b Page) int { return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.Slug, b.Slug)) })
	return list, s.c.Home
}

var slugs = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,99}$`)

var errSlug = errors.New("a slug has 1 to 100 lower-case letters, digits and hyphens, such as about-us, and is not admin")

// Save creates or changes the page with the slug old, which is empty for a new one.
func (s *Store) Save(old string, p Page) error {
	switch {
	case !slugs.MatchString(p.Slug), p.Slug == "admin":
		return errSlug
	case p.Status != Public && p.Status != Draft && p.Status != Private:
		return fmt.Errorf("status %q: want public, draft or private", p.Status)
	}
	return s.change(func(c *content, now time.Time) error {
		was := c.Pages[old]
		if p.Slug != old && c.Pages[p.Slug] != nil {
			return fmt.Errorf("page %s already exists", p.Slug)
		}
		if old != "" && was == nil {
			return fmt.Errorf("page %s does not exist", old)
		}
		p.Modified = now
		c.Pages[p.Slug] = &p
		delete(c.Moved, p.Slug)
		if was != nil && old != p.Slug {
			delete(c.Pages, old)
			c.Moved[old] = p.Slug
			c.owe(was, now)
		}
		if was != nil && was.Status == Public && old == p.Slug || p.Status == Public {
			c.owe(&Page{Slug: p.Slug, Status: Public}, now) // the hook announces the page, or that it is gone if it is no longer public
		}
		return nil
	})
}

// Delete deletes a page.
func (s *Store) Delete(slug string) error {
	return s.change(func(c *content, now time.Time) error {
		was := c.Pages[slug]
		if was == nil {
			return fmt.Errorf("page %s does not exist", slug)
		}
		delete(c.Pages, slug)
		c.owe(was, now)
		return nil
	})
}

// owe adds a pending notice of a page that is or was public, and of the home page, which lists it. Drafts and
// private pages are never announced.
func (c *content) owe(p *Page, now time.Time) {
	if p.Status == Public {
		c.Owed["/"+p.Slug], c.Owed["/"], c.Home = now, now, now
	}
}

// OweAll adds pending notices of everything public, for a notifier that has lost its state. Notices of known
// pages do no harm.
func (s *Store) OweAll() error {
	return s.change(func(c *content, now time.Time) error {
		if c.Home.IsZero() {
			c.Home = now
		}
		c.Owed["/"] = now
		for slug, p := range c.Pages {
			if p.Status == Public {
				c.Owed["/"+slug] = now
			}
		}
		return nil
	})
}

// Owed returns at most n paths with a pending notice, each with the time of its notice.
func (s *Store) Owed(n int) map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	owed := make(map[string]time.Time)
	for path, since := range s.c.Owed {
		if len(owed) == n {
			break
		}
		owed[path] = since
	}
	return owed
}

// Settle removes the notices that were sent, except for pages that have changed since.
func (s *Store) Settle(told map[string]time.Time) error {
	return s.change(func(c *content, _ time.Time) error {
		for path, since := range told {
			if c.Owed[path].Equal(since) {
				delete(c.Owed, path)
			}
		}
		return nil
	})
}

// change applies f, which changes nothing if it returns an error, and writes
// the file before anybody can see the change.
func (s *Store) change(f func(c *content, now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := content{Pages: maps.Clone(s.c.Pages), Moved: maps.Clone(s.c.Moved), Home: s.c.Home, Owed: maps.Clone(s.c.Owed)}
	now := time.Now().UTC().Truncate(time.Millisecond)
	if !now.After(s.c.Last) {
		now = s.c.Last.Add(time.Millisecond)
	}
	next.Last = now
	if err := f(&next, now); err != nil {
		return err
	}
	b, err := json.MarshalIndent(next, "", "\t")
	if err != nil {
		return err
	}
	if err := replace(s.path, b); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.c = next
	if len(next.Owed) > 0 {
		select {
		case s.owes <- struct{}{}:
		default:
		}
	}
	return nil
}

// replace writes a file whole or not at all.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
