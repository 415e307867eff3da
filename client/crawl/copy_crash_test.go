package crawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(killEnv); spec != "" {
		killedChild(spec)
	}
	if base := os.Getenv(copyEnv); base != "" {
		as := os.Getenv(copyEnv + "_AS")
		from := crawl.Copy{Base: base, NoStream: as == "", As: protocol.Form(as), Dir: "copy", State: "state"}
		c, err := from.Open()
		if err == nil {
			err = c.Run(context.Background())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Killed at any instant of a storm of edits, the copy ends equal to the
// site, and every file in it at any instant is a whole page.
func TestCopyKilledDuringEdits(t *testing.T) {
	s := serve(t, pages(400))
	was := map[string]map[string]bool{} // all contents that a page ever had
	note := func(p, body string) {
		if was[p] == nil {
			was[p] = map[string]bool{}
		}
		was[p][body] = true
	}
	for p, body := range s.live() {
		note(p, body)
	}
	c := newCopy(t, s.base, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	some := func() string {
		for p := range s.live() {
			return p
		}
		return "a.html"
	}
	edits := 0
	for round := range 10 {
		child := exec.Command(os.Args[0])
		child.Env, child.Dir = append(os.Environ(), copyEnv+"="+s.base), filepath.Dir(c.m.Dir)
		child.Stderr = os.Stderr
		must.OK(t, child.Start())
		over := time.After(time.Duration(30+rnd.IntN(250)) * time.Millisecond)
	storm:
		for {
			select {
			case <-over:
				break storm
			default:
			}
			edits++
			p := some()
			switch n := rnd.IntN(10); {
			case n < 2:
				to := fmt.Sprintf("m%d/p%d.html", rnd.IntN(5), edits)
				note(to, s.live()[p])
				s.move(p, to)
			case n < 3:
				s.remove(p)
			case n < 5:
				p = fmt.Sprintf("n%d/p%d.html", rnd.IntN(5), edits)
				fallthrough
			default:
				body := fmt.Sprint("edit ", edits)
				note(p, body)
				s.edit(p, body)
			}
			time.Sleep(time.Duration(rnd.IntN(2000)) * time.Microsecond)
		}
		child.Process.Kill()
		child.Wait()
		for name, body := range c.files() {
			if !was[name][body] {
				t.Fatalf("round %d: %s has %.40q, which the page never was", round, name, body)
			}
		}
	}
	c.start()
	c.want(s.live())
	if _, owed, _, _ := c.counts(); owed != 0 || c.manifest().Cursor != s.cursor() {
		t.Errorf("%d pages pending, at %v of %v", owed, c.manifest().Cursor, s.cursor())
	}
	t.Logf("%d edits, %d pages", edits, len(s.live()))
}
