package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
)

// Files that no index names any more stay for readers that are under way, and not for ever.
func TestOldPartsGo(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 1000)
	r.write()
	for n := range 40 {
		r.append(create(page(n, "edited")))
		r.write()
	}
	size := func() (named, all int64) {
		w := r.head().Whole
		for _, p := range slices.Concat(w.Parts, w.Changed) {
			named += p.Length
		}
		for _, f := range r.files()[1:] {
			if filepath.Ext(f) == ".rdf" {
				all += int64(len(r.text(f)))
			}
		}
		return named, all
	}
	named, all := size()
	if all <= named || all > named+named/4 {
		t.Errorf("%d bytes are there, %d named", all, named)
	}
	r.now = r.now.Add(6 * time.Hour)
	r.append(create(page(1, "again")))
	r.write()
	r.append(create(page(1, "and again")))
	r.now = r.now.Add(6 * time.Hour)
	r.write()
	r.check("later")
	left := len(r.files())
	r.open(100)
	r.write()
	if named, all = size(); all > named+20_000 || len(r.files()) > left {
		t.Errorf("%d bytes are there after 12 hours, %d named", all, named)
	}
}

// Somebody removes or cuts a part: the next write makes it again.
func TestLostPartIsMadeAgain(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 500)
	r.write()
	for what, spoil := range map[string]func(string) error{"removed": os.Remove, "cut": func(f string) error { return os.Truncate(f, 100) }} {
		p := r.head().Whole.Parts[2]
		r.must(spoil(filepath.Join(r.dir, strings.TrimPrefix(p.URL, base))))
		if what == "cut" { // only a new process looks at what is in the directory
			r.open(100)
		}
		r.write()
		r.check(what)
	}
	file := filepath.Join(r.dir, strings.TrimPrefix(r.head().Whole.Parts[2].URL, base))
	b := must.Get(os.ReadFile(file))
	b[1000]++
	r.must(os.WriteFile(file, b, 0o644)) // as long as it was: this is found when everything is compared
	it := page(7, "text of 7")
	it.Importance = 90
	r.append(create(it), create(page(8, "new")))
	r.now = r.now.Add(time.Hour)
	r.write()
	r.check("altered")
}

// The compressed copies of a part are made again when they are lost, or when a new process finds them damaged.
func TestLostSiblingIsMadeAgain(t *testing.T) {
	r := newRig(t, 100)
	r.fill(0, 500)
	r.write()
	for what, spoil := range map[string]func(string) error{
		"removed": os.Remove,
		"emptied": func(f string) error { return os.Truncate(f, 0) },
		"cut": func(f string) error {
			return errors.Join(os.Truncate(f, 100), os.Chtimes(f, time.Time{}, time.Now().Add(time.Hour)))
		},
	} {
		for _, ext := range []string{".gz", ".zst"} {
			file := filepath.Join(r.dir, strings.TrimPrefix(r.head().Whole.Parts[2].URL, base))
			before := r.text(file)
			r.must(spoil(file + ext))
			if what != "removed" { // only a new process looks at what is in the directory
				r.open(100)
			}
			if r.write() {
				t.Errorf("%s %s: the index was written", what, ext)
			}
			clear(r.checked)
			r.check(what + ext)
			left := must.Get(os.Stat(file + ext))
			if part, err := os.Stat(file); err != nil || left.ModTime().After(part.ModTime()) || r.text(file) != before {
				t.Errorf("%s %s: the part is of %v, its copy of %v, %v", what, ext, part.ModTime(), left.ModTime(), err)
			}
		}
	}
}
