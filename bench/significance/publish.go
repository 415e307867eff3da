package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
)

const base = "https://www.example.org/"

// A docroot is switched from one version to the next.
type docroot struct {
	how  string // for people
	path string
	put  func(path, version string) error
}

// docroots returns the ways in which a new build replaces the last one.
func docroots(dir string) []docroot {
	return []docroot{
		{"copied without times", filepath.Join(dir, "copied"), copyVersion},
		{"symbolic link swapped", filepath.Join(dir, "linked"), linkVersion},
	}
}

// copyVersion does what rsync -r --delete does: each file is written to a temporary name and renamed, its
// date is the time of writing, and files that the version does not have are deleted.
func copyVersion(path, version string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	err := filepath.WalkDir(version, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(version, name)
		if err != nil {
			return err
		}
		to := filepath.Join(path, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return replace(to, func(tmp string) error { return os.Symlink(target, tmp) })
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return replace(to, func(tmp string) error { return os.WriteFile(tmp, content, 0o644) })
	})
	if err != nil {
		return err
	}
	var gone []string
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		if _, err = os.Lstat(filepath.Join(version, rel)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		gone = append(gone, name)
		if d.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
	for _, name := range gone {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}

func linkVersion(path, version string) error {
	target, err := filepath.Abs(version)
	if err != nil {
		return err
	}
	return replace(path, func(tmp string) error { return os.Symlink(target, tmp) })
}

// replace makes a file or link under a temporary name, and renames it to path.
func replace(path string, make func(tmp string) error) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := make(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// A publication is a docroot with one state file.
type publication struct {
	root     docroot
	masked   bool
	features func(string, []byte, bool) (inventory.Features, error)
	dir      string // of the state and the manifest

	at      protocol.Cursor // the cursor of the last change read
	present map[string]time.Time
}

func (p *publication) String() string {
	if p.masked {
		return p.root.how + ", with masks"
	}
	return p.root.how + ", without masks"
}

// features returns what rdfgen reads from a page.
func (b *bench) features(masks maintext.Masks) func(string, []byte, bool) (inventory.Features, error) {
	return func(pageURL string, page []byte, whole bool) (inventory.Features, error) {
		p := html.Read(pageURL, b.shape(page), html.Options{Text: whole})
		f := inventory.Features{Title: p.Title, NoIndex: p.NoIndex, Language: p.Language, Canonical: p.Canonical}
		if whole {
			f.Text, f.Sketch = masks.Read(p.Text)
		}
		return f, nil
	}
}

// publications makes one of each docroot without masks, and one with them.
func (b *bench) publications(dir string, masks maintext.Masks) (list []*publication, err error) {
	for i, root := range docroots(dir) {
		for k, m := range []maintext.Masks{nil, masks} {
			p := &publication{root: root, masked: k == 1, features: b.features(m), dir: filepath.Join(dir, fmt.Sprintf("state-%d-%d", i, k))}
			if err := os.Mkdir(p.dir, 0o755); err != nil {
				return nil, err
			}
			list = append(list, p)
		}
	}
	return list, nil
}

// An edition is what a publication published of a version.
type edition struct {
	changes  []protocol.Change
	turns    int
	again    int // pages read again whose bytes were unchanged
	took     time.Duration
	said     string // counts by kind, for people
	problems []string
}

// maxTurns is the number of turns that a version may take: one to find the changes, one to publish deletions,
// and one that finds nothing.
const maxTurns = 3

// publish takes turns, each in a process of its own as under cron, until there is nothing left to publish.
// Then it compares the journal with the tree.
func (p *publication) publish(ctx context.Context, version tree) (e edition, err error) {
	began := time.Now()
	for quiet := false; !quiet; e.turns++ {
		if e.turns == maxTurns {
			e.problems = append(e.problems, fmt.Sprintf("unpublished changes remain after %d runs", maxTurns))
			break
		}
		rep, err := p.turn(ctx, &e, version)
		if err != nil {
			return e, err
		}
		e.again += rep.Touched
		quiet = rep.ChangeCount() == 0 && rep.HeldNow == 0
	}
	e.took = time.Since(began)
	return e, nil
}

// turn takes one turn, reads the changes that it published, and checks the journal afterwards.
func (p *publication) turn(ctx context.Context, e *edition, version tree) (rep inventory.Report, err error) {
	out := filepath.Join(p.dir, "robots.rdf")
	j, err := server.OpenJournal(ctx, filepath.Join(p.dir, "state"), server.JournalOptions{Base: base, Published: out, Manifest: out})
	if err != nil {
		return rep, err
	}
	defer j.Close()
	site := &server.Site{Docroot: p.root.path, Base: base, Features: p.features}
	pub := &server.Publisher{Inventory: site, Journal: j, Pace: server.Pace{Once: true},
		Snapshot: &manifest.Snapshot{Path: out, Manifest: doors.Describe(base), Public: site.Public}}
	if rep, err = pub.Turn(ctx); err != nil {
		return rep, err
	}
	if rep.MassHeld {
		if rep, err = pub.AcceptDeletions(ctx); err != nil {
			return rep, err
		}
	}
	if p.at.IsZero() {
		p.at = j.Head() // the first description has no changes
	}
	for {
		changes, err := j.Read(ctx, p.at, 0)
		if err != nil {
			return rep, err
		}
		if len(changes) == 0 {
			break
		}
		e.changes = append(e.changes, changes...)
		p.at.Seq = changes[len(changes)-1].Seq
	}
	if rep.ChangeCount() == 0 && rep.HeldNow == 0 {
		return rep, p.check(j, e, version)
	}
	return rep, nil
}

// check compares the items of a journal with the tree, and their dates with the earlier ones: the date of an
// unchanged page stays, and that of a changed page increases.
func (p *publication) check(j *server.Journal, e *edition, version tree) error {
	v, err := j.View()
	if err != nil {
		return err
	}
	defer v.Close()
	changed := make(map[string]bool)
	for _, c := range e.changes {
		changed[c.Item.URL] = true
	}
	wrong := func(format string, args ...any) {
		e.problems = append(e.problems, fmt.Sprintf(format, args...))
	}
	present := make(map[string]time.Time)
	for entry, err := range v.Entries() {
		if err != nil {
			return err
		}
		it := entry.Item
		at, err := placeOf(base, it.URL)
		if err != nil {
			wrong("%v", err)
			continue
		}
		f, ok := version[at]
		if !ok || f.digest != it.Digest || f.size != it.Length {
			wrong("%s: the journal has %d bytes, %x, the tree %d bytes, %x", at, it.Length, it.Digest[:4], f.size, f.digest[:4])
		}
		if was, ok := p.present[it.URL]; ok && changed[it.URL] != it.Modified.After(was) {
			wrong("%s: modified went from %v to %v, changed: %v", at, was, it.Modified, changed[it.URL])
		}
		present[it.URL] = it.Modified
	}
	if len(present) != len(version) {
		wrong("the journal has %d pages, the tree %d", len(present), len(version))
	}
	p.present = present
	return nil
}
