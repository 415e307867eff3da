package collection_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/must"
)

// spoil flips a bit at the end of a record's body.
func spoil(t *testing.T, dir string, p contents.Place) {
	t.Helper()
	file := filepath.Join(dir, p.File)
	b := must.Get(os.ReadFile(file))
	b[p.Offset+p.Length-20] ^= 4
	must.OK(t, os.WriteFile(file, b, 0o600))
}

// A body with a flipped bit, in a file of unchanged length, is detected when it is
// read, and is stored again by the next visit of each page that had it.
func TestDamagedBody(t *testing.T) {
	for _, coding := range []string{"", "gzip", "zstd"} {
		for _, by := range []string{"reading", "export"} {
			r := newKeeper(t, collection.WARC, coding)
			r.find("/a", "/b", "/c")
			bodies := map[string]string{"/a": strings.Repeat("body ", 100), "/b": strings.Repeat("body ", 100), "/c": "other"}
			for _, path := range []string{"/a", "/b", "/c"} {
				r.visit(path, 200, bodies[path])
			}
			head := r.c.Log().Head()
			r.reopen()
			spoil(t, r.dir, r.page("/a").Stored)
			want(t, "stands before it is read", r.c.Contents().Stands(r.page("/a").Stored), true)
			if by == "export" {
				if n, err := r.c.ExportWARC(t.Context(), t.TempDir(), "", collection.Selection{}); n != 2 || !errors.Is(err, contents.ErrBodyDamaged) {
					t.Errorf("coding %q: exported %d, %v", coding, n, err)
				}
			} else {
				p := r.page("/b")
				c, err := r.c.Contents().Content(p.URL, p.Stored)
				if err == nil {
					_, err = io.ReadAll(c)
					c.Close()
				}
				if !errors.Is(err, contents.ErrBodyDamaged) {
					t.Errorf("coding %q: %v", coding, err)
				}
			}
			for range 2 {
				want(t, "a stands", r.c.Contents().Stands(r.page("/a").Stored), false)
				want(t, "b stands", r.c.Contents().Stands(r.page("/b").Stored), false)
				want(t, "c stands", r.c.Contents().Stands(r.page("/c").Stored), true)
				r.reopen()
			}
			r.visit("/b", 304, "")
			want(t, "due after a 304 for an unreadable body", r.due("/b"), time.Second)
			for _, path := range []string{"/a", "/b", "/c"} {
				r.wait(time.Hour)
				r.visit(path, 200, bodies[path])
				want(t, path+" holds", r.content(path), bodies[path])
			}
			want(t, "journal", r.c.Log().Head(), head)
			if n, err := r.c.ExportWARC(t.Context(), t.TempDir(), "", collection.Selection{Newest: true}); n != 3 || err != nil {
				t.Errorf("coding %q: exported %d, %v", coding, n, err)
			}
		}
	}
}
