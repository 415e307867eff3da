package mirror_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror"
)

// childEnv makes the test binary a mirror of the site it names.
const childEnv = "PARLEY_TEST_MIRROR"

func TestMain(m *testing.M) {
	if base := os.Getenv(childEnv); base != "" {
		c := mirror.Mirror{Source: client.Source{Base: base, NoStream: true}, Dir: "copy", State: "state"}
		fmt.Fprintln(os.Stderr, c.Run(context.Background()))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Killed at any instant of a storm of edits, the mirror ends equal to the
// site, and every file that stands in it at any instant is a whole page.
func TestKilledInAStorm(t *testing.T) {
	s := serve(t, pages(400))
	was := map[string]map[string]bool{} // all that a page ever was
	note := func(p, body string) {
		if was[p] == nil {
			was[p] = map[string]bool{}
		}
		was[p][body] = true
	}
	for p, body := range s.live() {
		note(p, body)
	}
	c := newCopy(t, s, nil)
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
		child.Env, child.Dir = append(os.Environ(), childEnv+"="+s.base), filepath.Dir(c.m.Dir)
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
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
				t.Fatalf("round %d: %s holds %.40q, which it never was", round, name, body)
			}
		}
	}
	c.start()
	c.want(s.live())
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	st, err := mirror.ReadStatus(c.m.State)
	if err != nil || st.Owed != 0 || st.Held != len(s.live()) || st.Cursor != s.cursor() {
		t.Errorf("status %+v %v", st, err)
	}
	t.Logf("%d edits, %d pages", edits, len(s.live()))
}
