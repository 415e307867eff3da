package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// matter is the share of a page's main text above which a change is not minor for subscribers that filter out
// minor ones.
const matter = .01

// A workload is the changes of the pages: the same for each way.
type workload struct {
	pages   []string // names below the docroot, sorted
	first   [][]byte
	steps   []step
	changes int
	minor   int

	versions []map[[32]byte]version // of each page, by digest
}

// A step is one write at a time.
type step struct {
	after time.Duration // since the first change
	page  int
	text  []byte
}

// A version counts the changes of a page up to it.
type version struct{ number, major int }

// newWorkload draws pages of a docroot, and their changes.
func newWorkload(o options) (*workload, error) {
	root := os.DirFS(o.docroot)
	var names []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(name, ".html") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: set -docroot to a directory of pages, such as that of Debian's git-doc", err)
	}
	rng := rand.New(rand.NewPCG(o.seed, 6))
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	w := &workload{}
	seen := map[[32]byte]bool{}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		if len(w.pages) < o.pages && bytes.Contains(text, []byte("</body>")) && !seen[sha256.Sum256(text)] {
			seen[sha256.Sum256(text)] = true
			w.pages = append(w.pages, name)
		}
	}
	if len(w.pages) < 10 {
		return nil, fmt.Errorf("%s has %d pages to draw from", o.docroot, len(w.pages))
	}
	slices.Sort(w.pages)
	for _, name := range w.pages {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		w.first = append(w.first, text)
		w.versions = append(w.versions, map[[32]byte]version{sha256.Sum256(text): {}})
	}
	w.draw(rng, o.last)
	return w, nil
}

// draw draws the changes: about five a second, four of five minor, and in the middle nine of ten pages at
// once.
func (w *workload) draw(rng *rand.Rand, last time.Duration) {
	now := slices.Clone(w.first)
	at := make([]version, len(now))
	change := func(after time.Duration, page int, major bool) {
		if major {
			now[page] = amend(rng, now[page])
			at[page].major++
		} else {
			now[page] = stamp(now[page], w.changes)
			w.minor++
		}
		at[page].number++
		w.changes++
		w.versions[page][sha256.Sum256(now[page])] = at[page]
		w.steps = append(w.steps, step{after, page, now[page]})
	}
	mass := false
	for after := time.Duration(0); after < last; after += time.Duration(rng.ExpFloat64() * float64(200*time.Millisecond)) {
		if !mass && after > last/2 {
			mass = true
			for page := range now {
				if rng.IntN(10) > 0 {
					change(after, page, false)
				}
			}
		}
		change(after, rng.IntN(len(now)), rng.IntN(5) == 0)
	}
}

// stampPrefix starts the line that a generator leaves at the foot of a page.
const stampPrefix = "\n<!-- generated: "

// stamp returns a regenerated page with a new invisible stamp.
func stamp(page []byte, n int) []byte {
	line := fmt.Sprintf("%s%08d -->\n</body>", stampPrefix, n)
	end := bytes.LastIndex(page, []byte("</body>"))
	begin := end
	if i := bytes.LastIndex(page[:end], []byte(stampPrefix)); i >= 0 {
		begin = i
	}
	return slices.Concat(page[:begin], []byte(line), page[end+len("</body>"):])
}

// amend returns a page with a new passage: about a tenth of its length.
func amend(rng *rand.Rand, page []byte) []byte {
	words := strings.Fields("the of a change commit tree branch remote index file path option value reader writer server crawler page site " +
		"history merge object reference default command output user note format time number order list name")
	var p strings.Builder
	p.WriteString("\n<p>")
	for n := len(page)/80 + 60; n > 0; n-- {
		p.WriteString(words[rng.IntN(len(words))])
		p.WriteByte(' ')
	}
	p.WriteString(".</p>\n")
	at := bytes.LastIndex(page, []byte("</body>"))
	if i := bytes.LastIndex(page[:at], []byte(stampPrefix)); i >= 0 {
		at = i
	}
	if ends := bytes.Count(page[:at], []byte("</p>")); ends > 1 {
		skip := rng.IntN(ends-1) + 1
		at = 0
		for ; skip > 0; skip-- {
			at += bytes.Index(page[at:], []byte("</p>")) + len("</p>")
		}
	}
	return slices.Concat(page[:at], []byte(p.String()), page[at:])
}

func (w *workload) bytes() (n int64) {
	for _, text := range w.first {
		n += int64(len(text))
	}
	return n
}

// lay writes the initial pages.
func (w *workload) lay(root string) error {
	for i, name := range w.pages {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, w.first[i], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// write replaces a page.
func (w *workload) write(root string, s step) error {
	file := filepath.Join(root, w.pages[s.page])
	if err := os.WriteFile(file+".new~", s.text, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new~", file)
}
