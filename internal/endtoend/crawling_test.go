package endtoend

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest/warctest"
	"github.com/parleyweb/parley/internal/warc"
	"github.com/parleyweb/parley/protocol"
)

// A crawling is a crawler with a directory of its own, which persists over restarts.
type crawling struct {
	t    *testing.T
	dir  string
	args []string
	p    *program
}

func (c *crawling) start() {
	c.t.Helper()
	c.p = start(c.t, c.p, "crawler", append(slices.Clone(c.args), "--into", c.dir, "--allow-private", "--wait", "0", "--log-level", "info")...)
	c.t.Cleanup(c.p.kill9)
}

func (c *crawling) stop() { c.p.stop() }

// kill kills the crawler as a crash would, and reports whether it was running.
func (c *crawling) kill() bool {
	select {
	case <-c.p.done:
		return false
	default:
	}
	c.p.kill9()
	return !c.p.cmd.ProcessState.Exited()
}

// finished waits until the crawler has ended by itself.
func (c *crawling) finished() {
	c.t.Helper()
	select {
	case <-c.p.done:
	case <-time.After(time.Minute):
		c.t.Fatalf("the crawl does not end\n%s", c.p.said())
	}
	if code := c.p.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Fatalf("the crawl exits with %d\n%s", code, c.p.said())
	}
}

// stands returns the crawler's state of each page: "held" with the digest of its content, "moved" with the
// target, or another word. It is nil while the crawler does not answer.
func (c *crawling) stands() map[string]string {
	out, code := run(c.t, "crawler", "pages", "--into", c.dir, "--format", "json")
	if code != 0 {
		return nil
	}
	m := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p struct{ URL, State, Digest, Target string }
		if err := dec.Decode(&p); err == io.EOF {
			return m
		} else if err != nil {
			return nil
		}
		m[p.URL] = standing(p.State, p.Digest, p.Target)
	}
}

func standing(state, digest, target string) string {
	switch state {
	case "held":
		return state + " " + digest
	case "moved":
		return state + " " + target
	}
	return state
}

// until waits until the pages have the wanted states.
func (c *crawling) until(what string, want func() map[string]string, of func(map[string]string) map[string]string) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		began := time.Now()
		got, w := of(c.stands()), want()
		if maps.Equal(got, w) {
			return
		}
		select {
		case <-c.p.done:
			c.t.Fatalf("%s: the crawler exited with %d\n%s", what, c.p.cmd.ProcessState.ExitCode(), c.p.said())
		default:
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: timed out: %s\n%s", what, firstDifference(got, w), c.p.said())
		}
		rest(began, 30*time.Millisecond)
	}
}

func firstDifference(got, want map[string]string) string {
	n, first := 0, ""
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, u := range slices.Sorted(maps.Keys(all)) {
		if got[u] != want[u] {
			if n++; n == 1 {
				first = fmt.Sprintf("%s is %q, want %q", u, got[u], want[u])
			}
		}
	}
	return fmt.Sprintf("%d pages of %d differ; %s", n, len(all), first)
}

func every(m map[string]string) map[string]string { return m }

func onlyHeld(m map[string]string) map[string]string {
	held := maps.Clone(m)
	maps.DeleteFunc(held, func(_, s string) bool { return !strings.HasPrefix(s, "held ") })
	return held
}

// A holding is the content of a collection that no crawler has open.
type holding struct {
	pages  map[string]string // state of each page, with the target if it moved
	held   map[string]protocol.Digest
	copies map[string]bool // pages with the same content as another: their links are not followed
}

// holding reads the collection in process, and wants each page to have its content, and each event to lead to
// the content that it announces.
func (c *crawling) holding(events []collection.Event) holding {
	c.t.Helper()
	col := must.Get(collection.Open(c.dir, &collection.Options{ReadOnly: true, Wait: 10 * time.Second}))
	defer col.Close()
	inv := holding{map[string]string{}, map[string]protocol.Digest{}, map[string]bool{}}
	url := map[uint32]string{}
	for p, err := range col.Pages(c.t.Context()) {
		if err != nil {
			c.t.Fatal(err)
		}
		if _, twice := inv.pages[p.URL]; twice {
			c.t.Errorf("%s is listed twice", p.URL)
		}
		url[uint32(p.ID)] = p.URL
		inv.pages[p.URL] = standing(p.State.String(), p.Digest.String(), p.Target)
		inv.copies[p.URL] = p.Original != 0
		if p.State != collection.Held && p.State != collection.Failing || p.Digest.IsZero() {
			continue
		}
		inv.held[p.URL] = p.Digest
		if got, err := bodyAt(col, p.Stored); err != nil || got != p.Digest {
			c.t.Errorf("%s: the stored content does not match its record: %v", p.URL, err)
		}
	}
	for _, e := range events {
		if e.Op == protocol.Delete {
			continue
		}
		if got, err := bodyAt(col, e.Stored); err != nil || got != e.Digest || e.Signal == "" {
			c.t.Errorf("event %v leads to another body than its digest, or has no reason: %v", e.Cursor, err)
		}
	}
	for p, err := range col.Pages(c.t.Context()) {
		if err != nil {
			c.t.Fatal(err)
		}
		ids := must.Get(col.Links(p.ID))
		var to []string
		for _, id := range ids {
			to = append(to, url[uint32(id)])
		}
		slices.Sort(to)
		inv.pages[p.URL] += fmt.Sprintf(" to %q", to)
	}
	return inv
}

func bodyAt(col *collection.Collection, at contents.Place) (protocol.Digest, error) {
	content, err := col.Contents().Body(at)
	if err != nil {
		return protocol.Digest{}, err
	}
	defer content.Close()
	body, err := io.ReadAll(content)
	return protocol.Sum(body), err
}

// mirrored wants the mirror, if there is one, to have a file for each stored page, and no other.
func (c *crawling) mirrored(held map[string]protocol.Digest) {
	c.t.Helper()
	dir := filepath.Join(c.dir, "mirror")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return
	}
	var files, pages []string
	must.OK(c.t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		b, err := os.ReadFile(name)
		files = append(files, protocol.Sum(b).String())
		return err
	}))
	for _, d := range held {
		pages = append(pages, d.String())
	}
	slices.Sort(files)
	slices.Sort(pages)
	if !slices.Equal(files, pages) {
		c.t.Errorf("the mirror has %d files, which are not the content of the %d stored pages", len(files), len(pages))
	}
}

// archived wants the archives to be strictly valid, and returns how often they contain each version of a page.
func (c *crawling) archived() map[string]int {
	c.t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(c.dir, "warc", "*.warc*")))
	versions, revisited := map[string]int{}, map[string]bool{}
	n := 0
	for _, name := range files {
		if strings.Contains(filepath.Base(name), ".cdxj") {
			continue
		}
		n++
		b := must.Get(os.ReadFile(name))
		if _, err := warctest.Validate(bytes.NewReader(b)); err != nil {
			c.t.Errorf("%s: %v", filepath.Base(name), err)
		}
		r := warc.NewReader(bytes.NewReader(b))
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				c.t.Fatalf("%s: %v", filepath.Base(name), err)
			}
			switch rec.Type() {
			case warc.Response: // a page, not an error or a redirect stored beside the pages
				if resp, err := http.ReadResponse(bufio.NewReader(rec.Body), nil); err != nil {
					c.t.Errorf("%s: %s: %v", filepath.Base(name), rec.URL(), err)
				} else if resp.StatusCode != http.StatusOK {
					continue
				}
			case warc.Revisit: // the first revisit of a URL refers to a body that another URL had
				v := rec.URL() + " " + rec.Fields.Get("WARC-Payload-Digest")
				if of := rec.Fields.Get("WARC-Refers-To-Target-URI"); of == "" || of == rec.URL() || revisited[v] {
					continue
				}
				revisited[v] = true
			default:
				continue
			}
			d, ok := warc.ParseDigest(rec.Fields.Get("WARC-Payload-Digest"))
			if !ok {
				c.t.Errorf("%s: no digest of %s", filepath.Base(name), rec.URL())
			}
			versions[rec.URL()+" "+protocol.Digest(d).String()]++
		}
		r.Close()
	}
	if n == 0 {
		c.t.Error("there are no archives")
	}
	return versions
}

// verify wants a collection to be complete after many kills: the content of each page, its archives, and the
// events read from it.
func (c *crawling) verify(x *indexer) holding {
	c.t.Helper()
	list := x.finish()
	inv := c.holding(list)
	c.mirrored(inv.held)
	if told := replay(c.t, list); !maps.Equal(told, inv.held) {
		c.t.Errorf("the events lead to %d pages, but %d are stored: they differ", len(told), len(inv.held))
	}
	versions := map[string]int{} // one that was fetched before the site announced that the page was gone, and back, is stored twice
	for _, e := range list {
		if e.Op == protocol.Create || e.Op == protocol.Update {
			versions[e.URL+" "+e.Digest.String()]++
		}
	}
	c.t.Logf("%d pages, %d events, read by an indexer that was killed %d times", len(inv.pages), len(list), x.kills)
	if got := c.archived(); !maps.Equal(got, versions) {
		c.t.Errorf("%d versions are archived, but %d have events: %s", len(got), len(versions), firstVersion(got, versions))
	}
	return inv
}

func firstVersion(got, want map[string]int) string {
	for _, v := range slices.Sorted(maps.Keys(want)) {
		if got[v] != want[v] {
			return fmt.Sprintf("%d events, archived %d times: %s", want[v], got[v], v)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(got)) {
		if want[v] == 0 {
			return "archived, but without an event: " + v
		}
	}
	return "none"
}
