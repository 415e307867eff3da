package jetlog_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/protocol"
)

// titled is a step whose page has a title.
func titled(op protocol.Op, path, title string) journal.Step {
	s := step(op, path, title)
	s.Entry.Item.Title = title
	return s
}

// goes is the step that a page is gone.
func goes(path string) journal.Step {
	return journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: urlOf(path)}}}
}

// A site is the digests of its pages.
type site map[string]protocol.Digest

// told does what a reader does who is told of changes. It is an error if they do not follow each other, and the cursor.
func (s site) told(t *testing.T, at protocol.Cursor, changes []protocol.Change) {
	t.Helper()
	for _, c := range changes {
		if at.Seq++; c.Seq != at.Seq {
			t.Fatalf("change %d follows %d", c.Seq, at.Seq-1)
		}
		switch c.Op {
		case protocol.Move:
			delete(s, c.From)
			fallthrough
		default:
			s[c.Item.URL] = c.Item.Digest
		case protocol.Delete:
			delete(s, c.Item.URL)
		}
	}
}

// from reads a log from a cursor to its end.
func from(t *testing.T, l protocol.Log, at protocol.Cursor) (changes []protocol.Change) {
	t.Helper()
	for {
		some, err := l.Read(t.Context(), at, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			return changes
		}
		changes, at.Seq = append(changes, some...), some[len(some)-1].Seq
	}
}

// NATS has nothing of a withdrawn page any more but that it is gone. Readers learn that at every copy: one that has followed, one that was
// away meanwhile, one that had come to a message which was deleted, and one that begins later.
func TestWithdrawnPageIsForgotten(t *testing.T) {
	c := newCluster(t, 3)
	j := c.site()
	told := c.tell(c.stream(), j)
	begin := j.Head()
	c.reaches(told, begin)
	present := c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(present, begin)
	away, behind := c.follow(c.stream(), func() *journal.Journal { return j }), c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(away, begin)
	c.append(j, titled(protocol.Create, "a", "Welcome"), titled(protocol.Create, "leak", "Secret salaries"))
	c.reaches(away, c.append(j, titled(protocol.Create, "b", "Contact")))
	away.stop()
	c.reaches(behind, c.append(j, titled(protocol.Update, "leak", "Secret salaries of 2026")))
	behind.stop()
	c.append(j, titled(protocol.Update, "a", "Welcome!"))
	c.must(told.Forget(t.Context(), ""))
	if got := c.stored("site", "Secret salaries"); len(got) != 2 {
		t.Errorf("messages %v say what a page is that is not withdrawn", got)
	}
	c.append(j, goes("leak"))
	c.must(told.Forget(t.Context(), ""))
	if got := c.stored("site", "Secret salaries"); len(got) > 0 {
		t.Errorf("messages %v still say what the withdrawn page was", got)
	}
	if got := c.stored("site", urlOf("leak")); len(got) != 1 {
		t.Errorf("messages %v say that the page is gone, want one", got)
	}
	if got := c.stored("site", "Welcome"); len(got) != 2 {
		t.Errorf("messages %v are of another page, want two", got)
	}
	c.must(told.Forget(t.Context(), "")) // there is nothing more
	for _, l := range []*running{away, behind} {
		l.Log = &jetlog.Log{Stream: c.stream(), Journal: l.Journal, Items: l.Items, Logger: l.Logger}
		c.run(l.Log, l.Follow)
	}
	later := c.follow(c.stream(), func() *journal.Journal { return j })
	end := c.append(j, titled(protocol.Update, "b", "Contact us"))
	for _, l := range []*running{present, away, behind, later} {
		c.reaches(l, end)
		c.sameItems(l.Journal, j)
		got := site{urlOf("leak"): protocol.Sum([]byte("old"))}
		got.told(t, begin, from(t, l, begin))
		if want := (site{urlOf("a"): protocol.Sum([]byte("Welcome!")), urlOf("b"): protocol.Sum([]byte("Contact us"))}); !maps.Equal(got, want) {
			t.Errorf("a reader has %v, want %v", got, want)
		}
	}
}

// What is said of a purged page before its last update is deleted, though the page is still there, and overwritten on the disk.
func TestPurgedPageIsForgotten(t *testing.T) {
	c := newCluster(t, 1)
	j := c.site()
	told := c.tell(c.stream(), j)
	begin := j.Head()
	c.reaches(told, begin)
	c.append(j, titled(protocol.Create, "page", "Salaries"), titled(protocol.Create, "a", "Welcome"), titled(protocol.Update, "page", "Salaries of 2026"))
	c.append(j, titled(protocol.Update, "page", "Our jobs"))
	c.reaches(told, j.Head())
	onDisk := func(text string) (found []string) {
		c.must(filepath.WalkDir(c.servers[0].Options.StoreDir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, []byte(text)) {
				found = append(found, path)
			}
			return err
		}))
		return found
	}
	c.eventually("it is on the disk", func() bool { return len(onDisk("Salaries of 2026")) > 0 })
	c.must(told.Forget(t.Context(), urlOf("page")))
	if got := c.stored("site", urlOf("page")); len(got) != 1 {
		t.Errorf("messages %v are of the page, want one", got)
	}
	c.eventually("it is on the disk no more", func() bool { return len(onDisk("Salaries")) == 0 })
	copied := c.follow(c.stream(), func() *journal.Journal { return j })
	c.reaches(copied, j.Head())
	got := site{}
	got.told(t, begin, from(t, copied, begin))
	if want := (site{urlOf("a"): protocol.Sum([]byte("Welcome")), urlOf("page"): protocol.Sum([]byte("Our jobs"))}); !maps.Equal(got, want) {
		t.Errorf("a reader has %v, want %v", got, want)
	}
}

// Whatever has been deleted from the stream, a reader who comes with any cursor, to any copy, has the site in the end.
func TestReadersOfAStreamThatForgets(t *testing.T) {
	seeds, turns := uint64(6), 60
	if testing.Short() {
		seeds, turns = 2, 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 5))
			c := newCluster(t, 1)
			j := c.site()
			told, present := c.tell(c.stream(), j), func() *journal.Journal { return j }
			c.reaches(told, j.Head())
			copies := []*running{c.follow(c.stream(), present)}
			c.reaches(copies[0], j.Head())
			begin := j.Head()
			var forgetting sync.WaitGroup
			for range turns {
				c.append(j, randomSteps(rnd, 1+rnd.IntN(20))...)
				switch rnd.IntN(5) {
				case 0:
					forgetting.Go(func() {
						if err := told.Forget(t.Context(), ""); err != nil {
							t.Error(err)
						}
					})
				case 1:
					c.must(told.Forget(t.Context(), urlOf(fmt.Sprint("p", rnd.IntN(12)))))
				case 2:
					copies = append(copies, c.follow(c.stream(), present))
				case 3:
					l := copies[rnd.IntN(len(copies))]
					l.stop()
					l.Log = &jetlog.Log{Stream: c.stream(), Journal: l.Journal, Items: l.Items, Logger: l.Logger}
					*l = *c.run(l.Log, l.Log.Follow)
				}
			}
			forgetting.Wait()
			states := []site{{}} // after each change
			for at := begin; at != j.Head(); at.Seq++ {
				changes, err := j.Read(t.Context(), at, 1)
				c.must(err)
				next := maps.Clone(states[len(states)-1])
				next.told(t, at, changes)
				states = append(states, next)
			}
			c.must(told.Forget(t.Context(), ""))
			for _, l := range copies {
				c.reaches(l, j.Head())
				c.sameItems(l.Journal, j)
				for range 10 {
					n := rnd.IntN(len(states))
					got, at := maps.Clone(states[n]), protocol.Cursor{Epoch: begin.Epoch, Seq: begin.Seq + uint64(n)}
					got.told(t, at, from(t, l, at))
					if want := states[len(states)-1]; !maps.Equal(got, want) {
						t.Fatalf("a reader who comes at %v has %v, want %v", at, got, want)
					}
				}
			}
			deleted := int(j.Head().Seq-begin.Seq) + 1 - len(c.stored("site", ""))
			if deleted == 0 {
				t.Error("nothing was deleted")
			}
			t.Logf("%d of %d messages are deleted, %d copies", deleted, j.Head().Seq, len(copies))
		})
	}
}
