//go:build unix

package endtoend

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// A site has several doors, whose log is in three NATS servers, and a crawler comes to another one at each change. Programs and
// servers are killed or stopped, in odd rounds the writer, too; the disk of a NATS server is full, if this test may mount one; then all of
// NATS is away for a while. Nothing is lost: no door refuses a cursor, no reader misses a change or has one twice, and in the end the copy is
// equal to the site, and the manifest and the pages are the same at all doors. A door that has not reached NATS for a while delivers changes,
// but no bytes, and one that was stopped while a page was purged delivers none of it when it goes on.
// PARLEY_CLUSTER_ROUNDS is how often everything fails; twice by default. From 20 on, NATS is away for 10 minutes in the last round.
func TestDoorsOnSeveralMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts eight programs")
	}
	const lease = time.Second // with the least --hurry
	rounds, err := strconv.Atoi(os.Getenv("PARLEY_CLUSTER_ROUNDS"))
	if err != nil {
		rounds = 2
	}
	c := newClusterOfDoors(t)
	for i := range 20 {
		c.write(fmt.Sprintf("p%d.html", i), fmt.Sprint("<p>Page ", i))
	}
	c.write("robots.txt", "User-agent: *\nDisallow: /secret/\n")
	c.write("secret/page.html", "<p>Nobody is told of it")
	secret := func(page string) bool { return strings.HasPrefix(page, "secret/") }
	for _, m := range c.members {
		c.start(m)
	}
	writer, standby, door, other := c.members[0], c.members[1], c.members[2], c.members[3]
	if !strings.Contains(writer.said(), "all servers of the stream sync every change") {
		t.Errorf("the writer has not asked how NATS syncs:\n%s", writer.said())
	}
	begin := writer.head()
	c.startCrawler("--hurry", "100ms")
	c.identicalBut(secret)

	read, stop, ended := &reader{members: c.members, at: begin}, make(chan struct{}), make(chan struct{})
	end := protocol.Cursor{}
	go func() {
		defer close(ended)
		read.read(stop, func() protocol.Cursor { return end })
	}()
	edits := 0
	edit := func(n int) {
		for range n {
			edits++
			c.write(fmt.Sprintf("p%d.html", edits%20), fmt.Sprint("<p>Page ", edits%20, ", edit ", edits))
		}
		c.balance.hop()
	}
	told := func(m *member, what string) { // once a change that comes now is told there
		c.t.Helper()
		at := m.head()
		edit(1)
		began := time.Now()
		c.until(what, func() bool { return m.head().Seq > at.Seq })
		if took := time.Since(began); took > time.Second {
			t.Logf("%s: after %s", what, took.Round(time.Millisecond))
		}
	}
	replaced := 0
	lead := func() { // the writer alone may not have reached NATS for longer than its lease: then it stands by
		if standby.health().Role == "writer" {
			writer, standby = standby, writer
			replaced++
		}
	}
	purge := func(page string) {
		c.t.Helper()
		c.until("a page is purged", func() bool {
			lead()
			out, code := run(t, "notifier", "purge", "--base", c.base, "--state", filepath.Join(c.dir, writer.name, "state.db"), c.base+page)
			if code != 0 {
				t.Logf("%s does not purge: %s", writer.name, out)
			}
			return code == 0
		})
	}
	for round := range rounds {
		for range 5 {
			told(door, "a change is told")
		}

		door.kill9()
		edit(3)
		c.start(door)

		down := round % 3
		c.nats[down].kill9()
		told(door, "a change is told without one NATS server")
		c.startNATS(down)
		stopped := (round + 1) % 3
		c.nats[stopped].cmd.Process.Signal(syscall.SIGSTOP)
		edit(3)
		c.nats[stopped].cmd.Process.Signal(syscall.SIGCONT)
		told(door, "a change is told after one NATS server was stopped")

		full := (round + 2) % 3
		if c.fill(full) {
			told(door, "a change is told while the disk of one NATS server is full")
			edit(3)
			c.empty(full)
			c.nats[full].kill9() // as its operator does: it has given up
			c.startNATS(full)
			told(door, "a change is told after the disk of one NATS server was full")
		}

		leaked := fmt.Sprint("<p>Leaked in round ", round)
		c.write("leak.html", leaked)
		c.until("a door has a page", func() bool { return strings.Contains(other.bundle(begin), leaked) })
		other.cmd.Process.Signal(syscall.SIGSTOP)
		c.write("leak.html", fmt.Sprint("<p>Mended in round ", round))
		edit(1)
		purge("leak.html")
		other.cmd.Process.Signal(syscall.SIGCONT)
		c.until("a door that was stopped tells of the page", func() bool { // not at once: what the stream had of it was deleted
			said := other.bundle(begin)
			if strings.Contains(said, leaked) {
				t.Errorf("a door that was stopped delivers what was purged:\n%s", said)
			}
			return strings.Contains(said, "leak.html")
		})

		lead()
		c.until("the door has everything", func() bool { return door.head() == writer.head() })
		before, lost := door.head(), time.Now()
		if round%2 == 0 {
			writer.kill9()
		} else { // it does not know that it has been replaced, until it goes on
			writer.cmd.Process.Signal(syscall.SIGSTOP)
		}
		os.Remove(c.path("robots.txt")) // as while a site is installed again: what was forbidden stays so, at the next writer too
		edit(2)
		c.until("changes are told again", func() bool { return door.head().Seq > before.Seq })
		if took := time.Since(lost); took > lease+10*time.Second {
			t.Errorf("changes are told %v after the writer was lost", took)
		} else {
			t.Logf("changes are told again %v after the writer was lost", took.Round(time.Millisecond))
		}
		c.until("another notifier has taken over", func() bool { return standby.health().Role == "writer" })
		told(door, "a change is told by another notifier")
		if round%2 == 1 {
			writer.cmd.Process.Signal(syscall.SIGCONT)
			c.until("the writer that was replaced stands by", func() bool { return writer.health().Role == "standby" })
		} else {
			c.start(writer)
		}
		writer, standby = standby, writer

		var at protocol.Cursor
		c.until("all members are equal", func() bool {
			at = door.head()
			return !slices.ContainsFunc(c.members, func(m *member) bool { return m.head() != at })
		})
		for _, n := range c.nats {
			n.kill9()
		}
		edit(2)
		serves := func(m *member) {
			if status, _, body, err := m.get("/parley/changes?after=" + at.String()); err != nil || status != http.StatusOK {
				t.Errorf("without NATS %s answers %d: %s %v", m.name, status, body, err)
			}
			if status, _, _, err := m.get("/robots.rdf"); err != nil || status != http.StatusOK {
				t.Errorf("without NATS the manifest of %s: %d %v", m.name, status, err)
			}
		}
		for _, m := range c.members {
			serves(m)
			next := at
			next.Seq += 1000
			if status, header, _, err := m.get("/parley/changes?after=" + next.String()); err != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
				t.Errorf("without NATS %s judges a cursor that it cannot know: %d %v", m.name, status, err)
			}
			if m.health().Away == "" {
				t.Errorf("%s does not say that NATS is away", m.name)
			}
		}
		c.until("a door that is cut off delivers no bytes", func() bool {
			return !strings.Contains(door.bundle(begin), "<p>Page") && strings.Contains(door.bundle(begin), c.base+"p1.html")
		})
		if round == 19 {
			for range 10 {
				pause.For(t.Context(), time.Minute)
				edit(1)
				for _, m := range c.members {
					serves(m)
				}
			}
		}
		for i := range c.nats {
			c.startNATS(i)
		}
		told(door, "changes are told when NATS is back")
	}
	c.identicalBut(secret)
	c.until("all members have everything", func() bool {
		end = writer.head()
		return !slices.ContainsFunc(c.members, func(m *member) bool { return m.head() != end })
	})
	close(stop)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("the reader is at %v, the log at %v", read.at, end)
	}
	if read.wrong != nil {
		t.Error(read.wrong)
	}
	if end.Epoch != begin.Epoch || read.changes != int(end.Seq-begin.Seq) || read.changes == 0 {
		t.Errorf("%d changes read, from %v to %v", read.changes, begin, end)
	}
	if n := c.balance.said(http.StatusConflict) + c.balance.said(http.StatusGone); n > 0 {
		t.Errorf("%d cursors of the crawler were refused", n)
	}
	c.until("the manifest is the same everywhere", func() bool {
		_, header, want, err := writer.get("/robots.rdf")
		for _, m := range c.members {
			_, h, body, merr := m.get("/robots.rdf")
			if err != nil || merr != nil || body != want || h.Get("Etag") != header.Get("Etag") || h.Get("Last-Modified") != header.Get("Last-Modified") {
				return false
			}
		}
		if strings.Contains(want, "secret") {
			t.Error("a page that robots.txt forbade is published")
		}
		return strings.Contains(header.Get("Etag"), fmt.Sprintf("%s.%d.", end.Epoch, end.Seq))
	})
	var pages []string
	for i := range 20 {
		pages = append(pages, fmt.Sprintf("%sp%d.html", c.base, i))
	}
	c.until("the pages are the same everywhere", func() bool {
		want := writer.pages(pages)
		return strings.Count(want, "<p>Page") == 20 && !slices.ContainsFunc(c.members, func(m *member) bool {
			return m.pages(pages) != want || strings.Count(m.bundle(begin), "<p>Page") != 20 || strings.Contains(m.bundle(begin), "Nobody is told")
		})
	})
	c.write("p3.html", "<p>Page 3, without its secret")
	purge("p3.html")
	for _, m := range c.members {
		if said := m.bundle(begin); strings.Contains(said, "<p>Page 3, edit") {
			t.Errorf("%s delivers what was purged", m.name)
		}
	}
	t.Logf("%d edits, %d changes, %d writers were replaced that ran, responses to the crawler %v, to the reader but 200 %v", edits, read.changes, replaced, c.balance.says, read.refused)
}
