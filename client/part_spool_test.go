package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A part vanishes while the others are fetched: the index is requested once more, past all caches, and no part twice. If
// the new one is of no use either, the cursor stays, and the next poll tries with the same parts.
func TestPartVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 100, 10)
		s.publish(true)
		gone := pathOf(s.whole.Parts[6])
		own := s.doors["/"+gone]
		again := true
		s.setDoor("/"+gone, func(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
			if own(httptest.NewRecorder(), r, h); again { // it counts as requested
				again = false
				s.change(put("00061.html", "edited"), put("00062.html", "edited"))
				s.publish(true) // rewrites the part
			}
			w.WriteHeader(http.StatusNotFound)
		})
		c := newCopier(s.fakeSite)
		src := s.source()
		c.follow(src, protocol.Cursor{}, c.caughtUp)
		asked, _ := s.requests()
		if n := len(asked); len(c.errs) > 0 || indexes(asked) != 2 || n != 2+10+1 || s.cache.Get("Cache-Control") != "no-cache" || s.cache.Get("If-None-Match") != "" {
			t.Errorf("requests %v, the last with %v; errors %v", asked, s.cache, c.errs)
		}

		s.change(put("00011.html", "edited"), put("00091.html", "edited"))
		s.publish(true)
		rewritten := pathOf(s.whole.Parts[9])
		s.lost[rewritten] = true
		began := time.Now()
		at := c.cursor
		c.follow(src, protocol.Cursor{}, func() bool {
			if len(c.errs) == 1 && s.lost[rewritten] {
				if asked, _ := s.requests(); indexes(asked) != 2 || len(asked) != 2+10+1 || c.cursor != at {
					t.Errorf("lost: requests %v, cursor %v", asked, c.cursor)
				}
				if !errors.Is(c.errs[0], protocol.ErrPart) {
					t.Error(c.errs[0])
				}
				s.with(func() { delete(s.lost, rewritten) })
			}
			return c.caughtUp()
		})
		if asked, _ := s.requests(); !slices.Equal(asked, []string{"robots.rdf", rewritten}) {
			t.Errorf("found again: requests %v", asked)
		}
		if took := time.Since(began); took > 11*time.Minute || len(c.errs) != 1 {
			t.Errorf("found again after %v, errors %v", took, c.errs)
		}
	})
}

// A stored part is damaged before it is read: it is fetched again, and no other.
func TestStoredPartIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 50, 10)
		s.publish(true)
		src := s.source()
		src.Temp = t.TempDir()
		last := pathOf(s.whole.Parts[4])
		own := s.doors["/"+last]
		s.setDoor("/"+last, func(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
			own(w, r, h)
			stored, err := filepath.Glob(filepath.Join(src.Temp, "*", fmt.Sprintf("%x", s.whole.Parts[2].Digest[:])))
			if err != nil || len(stored) != 1 {
				t.Errorf("stored: %v %v", stored, err)
				return
			}
			if err := os.Truncate(stored[0], 20); err != nil {
				t.Error(err)
			}
		})
		c := newCopier(s.fakeSite)
		c.follow(src, protocol.Cursor{}, c.caughtUp)
		asked, _ := s.requests()
		if len(c.errs) != 1 || len(asked) != 6+2 || asked[7] != pathOf(s.whole.Parts[2]) {
			t.Errorf("requests %v, errors %v", asked, c.errs)
		}
	})
}

// The connection is cut after a quarter of an hour of requests at a polite pace: what was read until then is no reason to
// wait longer before the next attempt.
func TestPartsAtAPolitePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 200, 1)
		s.publish(true)
		p := "/" + pathOf(s.whole.Parts[180])
		own := s.doors[p]
		cut := true
		s.setDoor(p, func(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
			if cut {
				cut = false
				own(&cutWriter{w, 100}, r, h)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			own(w, r, h)
		})
		src := s.source()
		src.Pace = func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		c := newCopier(s.fakeSite)
		began := time.Now()
		c.follow(src, protocol.Cursor{}, c.caughtUp)
		if asked, _ := s.requests(); len(asked) != 203 || len(c.errs) != 1 {
			t.Errorf("%d requests, errors %v", len(asked), c.errs)
		}
		if took := time.Since(began); took > 18*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// While a part is lost for good, the manifest is requested at its usual interval, not sooner.
func TestPartIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 30, 10)
		s.publish(true)
		s.lost[pathOf(s.whole.Parts[2])] = true
		ctx, end := context.WithTimeout(t.Context(), 3*time.Hour)
		defer end()
		n := 0
		for step, err := range client.Follow(ctx, s.source(), protocol.Cursor{}) {
			if n++; err == nil {
				t.Errorf("step %+v", step)
			}
		}
		if asked, _ := s.requests(); n < 10 || n > 20 || indexes(asked) > 2*n+2 {
			t.Errorf("%d errors, %d requests of the manifest", n, indexes(asked))
		}
	})
}

// Parts come in any coding that a server has. A body that is not the part, or decodes to more, is not believed.
func TestCodedParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPartedSite(t, 60, 20)
		s.publish(true)
		coded := func(b []byte) []byte {
			var out bytes.Buffer
			z := gzip.NewWriter(&out)
			z.Write(b)
			z.Close()
			return out.Bytes()
		}
		bodies := []func(own []byte) []byte{
			func(own []byte) []byte { return append(bytes.Clone(own), "<!-- more -->"...) },
			func(own []byte) []byte { return append(bytes.Clone(own), make([]byte, 1<<20)...) },
			func(own []byte) []byte { return bytes.Replace(own, []byte("00025"), []byte("00026"), 1) },
			func(own []byte) []byte { return own[:len(own)-1] },
			func(own []byte) []byte { return nil },
			func(own []byte) []byte { return own }, // right at last
		}
		p := pathOf(s.whole.Parts[1])
		own := s.doors["/"+p]
		n := 0
		s.setDoor("/"+p, func(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
			rec := httptest.NewRecorder()
			own(rec, r, h)
			b := bodies[n/2](rec.Body.Bytes())
			if got := r.Header.Get("Accept-Encoding"); got != "zstd, gzip" {
				t.Errorf("Accept-Encoding %q", got)
			}
			if n++; n%2 == 1 {
				w.Write(b)
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(coded(b))
		})
		c := newCopier(s.fakeSite)
		c.follow(s.source(), protocol.Cursor{}, c.caughtUp)
		if len(c.errs) != 5 || n != 11 {
			t.Errorf("%d requests of the part, errors %v", n, c.errs)
		}
		for _, err := range c.errs {
			if !errors.Is(err, protocol.ErrPart) {
				t.Error(err)
			}
		}
	})
}

// A process is killed while it fetches the parts of a big manifest. The next one goes on where it was.
func TestKilledWhileFetchingParts(t *testing.T) {
	if site := os.Getenv(killedEnv); site != "" { // the process that is killed
		for _, err := range client.Follow(t.Context(), &client.Source{Base: site, Temp: os.Getenv("TEMP_OF_PARTS")}, protocol.Cursor{}) {
			t.Error("not killed", err)
			return
		}
	}
	child, started := exec.Command(os.Args[0], "-test.run=^TestKilledWhileFetchingParts$"), make(chan struct{})
	var parts atomic.Int64
	root := t.TempDir()
	files := http.FileServer(http.Dir(root))
	killed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, ".parts/") {
			if n := parts.Add(1); n == 6 {
				<-started
				child.Process.Kill()
				close(killed)
				return
			}
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	at := server.URL + "/"
	save := func(name string, m protocol.Manifest, items []protocol.Item) []byte {
		var b bytes.Buffer
		m.URL, m.Base, m.Items = at+"robots.rdf", at, len(items)
		must.OK(t, protocol.WriteManifest(&b, m, all(items), nil))
		must.OK(t, os.WriteFile(filepath.Join(root, name), b.Bytes(), 0o644))
		return b.Bytes()
	}
	must.OK(t, os.Mkdir(filepath.Join(root, "robots.rdf.parts"), 0o755))
	whole := &protocol.Whole{Cursor: protocol.Cursor{Epoch: "e", Seq: 1}, Items: 100}
	for i := range 10 {
		var items []protocol.Item
		for k := range 10 {
			items = append(items, protocol.Item{URL: fmt.Sprintf("%s%03d.html", at, 10*i+k), Length: -1})
		}
		name := fmt.Sprintf("robots.rdf.parts/%d.rdf", i)
		b := save(name, protocol.Manifest{}, items)
		whole.Parts = append(whole.Parts, protocol.Part{URL: at + name, Seq: 1, Items: 10, Length: int64(len(b)), Digest: protocol.Sum(b)})
	}
	save("robots.rdf", protocol.Manifest{Whole: whole}, nil)

	temp := t.TempDir()
	child.Env = append(os.Environ(), killedEnv+"="+at, "TEMP_OF_PARTS="+temp)
	must.OK(t, child.Start())
	close(started)
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the process was not killed: %v", err)
	}
	<-killed
	// One of the parts that it has stored is damaged, as by a loss of power.
	stored, err := filepath.Glob(filepath.Join(temp, "*", "*"))
	if err != nil || len(stored) < 5 {
		t.Fatalf("stored %v, %v", stored, err)
	}
	must.OK(t, os.Truncate(stored[0], 10))
	parts.Store(100)
	n := 0
	src := &client.Source{Base: at, Temp: temp, Once: true}
	for step, err := range client.Follow(t.Context(), src, protocol.Cursor{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n += len(step.Changes); step.Whole != (n == 100) {
			t.Errorf("%d pages, whole %v", n, step.Whole)
		}
	}
	if n != 100 || parts.Load() != 100+5+1 {
		t.Errorf("%d pages, %d parts fetched, want 6", n, parts.Load()-100)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left in Temp: %v %v", left, err)
	}
}

// What processes have left that were killed long ago is removed.
func TestRemoveOldParts(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"parley-old.parts": 8 * 24 * time.Hour, "parley-new.parts": time.Hour, "other.parts": 8 * 24 * time.Hour} {
		name = filepath.Join(dir, name)
		must.OK(t, os.Mkdir(name, 0o700))
		must.OK(t, os.WriteFile(filepath.Join(name, "1"), nil, 0o600))
		must.OK(t, os.Chtimes(name, time.Time{}, time.Now().Add(-age)))
	}
	client.RemoveParts(dir)
	left, err := filepath.Glob(filepath.Join(dir, "*", "1"))
	if err != nil || len(left) != 2 || filepath.Base(filepath.Dir(left[1])) != "parley-new.parts" {
		t.Errorf("left %v, %v", left, err)
	}
}
