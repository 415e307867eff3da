package collection_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
)

// A writer that does something else before each part.
type writer struct {
	to     *os.File
	before func(part int) error
	parts  int
}

func (w *writer) Write(b []byte) (int, error) {
	w.parts++
	if err := w.before(w.parts); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}

// A copy of the state has what was stored when it began, although commits go on while it is written.
func TestBackupWhileCommitsGoOn(t *testing.T) {
	r := newRig(t)
	r.o.Contents = collection.WARC
	r.reopen()
	r.find("/a", "/b")
	r.visit("/a", 200, "first", "/c")
	file := filepath.Join(t.TempDir(), "copy.db")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{to: f, before: func(part int) error {
		var more []string
		for i := range 300 {
			more = append(more, fmt.Sprintf("/more/%d/%d", part, i))
		}
		r.find(more...)
		r.visit("/a", 200, fmt.Sprint("later ", part))
		return nil
	}}
	must.OK(t, errors.Join(collection.Backup(r.c, w), f.Close()))
	if w.parts < 3 || r.c.Len() != 3+300*w.parts {
		t.Errorf("%d pages after %d parts", r.c.Len(), w.parts)
	}
	copied := open(t, r.dir, &collection.Options{ReadOnly: true, State: file})
	p, _, err := copied.Page(home + "/a")
	if err != nil || copied.Len() != 3 || p.Digest != r.answer("/a", 200, "first").Digest || p.Visits != 1 {
		t.Errorf("%d pages: %+v: %v", copied.Len(), p, err)
	}
	content := must.Get(copied.Contents().Content(p.URL, p.Stored))
	defer content.Close()
	if b, err := io.ReadAll(content); err != nil || string(b) != "first" {
		t.Errorf("the content is %q: %v", b, err)
	}

	full := errors.New("no space left")
	if err := collection.Backup(r.c, &writer{before: func(int) error { return full }}); err == nil {
		t.Error(err)
	}
	r.find("/after")
	r.reopen()
	r.page("/after")
}
