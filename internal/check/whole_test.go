package check_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func each[T any](list []T) func(func(T, error) bool) {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// parted returns the files of a manifest in so many page parts of two pages, of which a change part changes one and removes one.
func parted(t *testing.T, parts int) map[string]string {
	files := map[string]string{}
	write := func(name string, m protocol.Manifest, items []protocol.Item, gone []protocol.Tombstone) []byte {
		var b bytes.Buffer
		m.URL, m.Base, m.Items = site+"/robots.rdf", site+"/", len(items)
		must.OK(t, protocol.WriteManifest(&b, m, each(items), each(gone)))
		files[name] = b.String()
		return b.Bytes()
	}
	part := func(name string, after, seq uint64, items []protocol.Item, gone []protocol.Tombstone) protocol.Part {
		b := write(name, protocol.Manifest{}, items, gone)
		return protocol.Part{URL: site + "/" + name, After: after, Seq: seq, Items: len(items) + len(gone), Length: int64(len(b)), Digest: protocol.Sum(b)}
	}
	page := func(i int) protocol.Item { return protocol.Item{URL: fmt.Sprintf("%s/%03d.html", site, i), Length: -1} }
	w := &protocol.Whole{Cursor: protocol.Cursor{Epoch: "e", Seq: 2}, Items: 2*parts - 1}
	for i := range parts {
		w.Parts = append(w.Parts, part(fmt.Sprintf("robots.rdf.parts/%d.rdf", i), 0, 1, []protocol.Item{page(2 * i), page(2*i + 1)}, nil))
	}
	w.Changed = []protocol.Part{part("robots.rdf.parts/changed.rdf", 1, 2, []protocol.Item{page(1)}, []protocol.Tombstone{{URL: page(2).URL}})}
	write("robots.rdf", protocol.Manifest{Whole: w}, []protocol.Item{page(1)}, nil)
	return files
}

// A manifest in parts is checked with its parts: as a file with all, on the Web with some.
func TestManifestInParts(t *testing.T) {
	for name, c := range map[string]struct {
		does func(files map[string]string)
		rule string
	}{
		"right":   {func(map[string]string) {}, ""},
		"missing": {func(f map[string]string) { delete(f, "robots.rdf.parts/2.rdf") }, "part-missing"},
		"cut":     {func(f map[string]string) { f["robots.rdf.parts/2.rdf"] = f["robots.rdf.parts/2.rdf"][:100] }, "part-differs"},
		"other":   {func(f map[string]string) { f["robots.rdf.parts/changed.rdf"] = f["robots.rdf.parts/2.rdf"] }, "part-differs"},
		"miscounts": {func(f map[string]string) {
			f["robots.rdf"] = strings.Replace(f["robots.rdf"], "<p:items>59<", "<p:items>58<", 1)
		}, "count"},
	} {
		files := parted(t, 30)
		c.does(files)
		dir := t.TempDir()
		must.OK(t, os.Mkdir(filepath.Join(dir, "robots.rdf.parts"), 0o755))
		for file, text := range files {
			must.Write(t, filepath.Join(dir, file), text)
		}
		r, err := new(check.Checker).File(t.Context(), filepath.Join(dir, "robots.rdf"), false)
		if err != nil || r.Kind != "robots.rdf in parts" {
			t.Fatal(name, r, err)
		}
		errors := r.Count(check.Error)
		if _, ok := has(r, c.rule); c.rule != "" && (!ok || errors != 1) || c.rule == "" && (errors > 0 || r.Entries != 59) {
			t.Errorf("%s: %d entries, %+v", name, r.Entries, r.Findings)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		files := parted(t, 30)
		asked := 0
		w := &web{serve: func(r *http.Request) (int, string, map[string]string) {
			text, ok := files[r.URL.Path[1:]]
			if strings.Contains(r.URL.Path, ".parts/") {
				asked++
			}
			if !ok {
				return 404, "", nil
			}
			return 200, text, map[string]string{"Content-Type": protocol.ManifestType}
		}}
		c := w.checker()
		c.Sample = -1
		r := must.Get(c.URL(t.Context(), site+"/robots.rdf"))
		unread, _ := has(r, "parts-unread")
		if asked != 21 || r.Count(check.Error) > 0 || unread.Count != 10 || unread.Of != 31 || r.Entries < 39 || r.Entries > 41 {
			t.Errorf("%d parts fetched, %d entries, %+v", asked, r.Entries, r.Findings)
		}
	})
}
