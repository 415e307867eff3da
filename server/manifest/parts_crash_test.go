package manifest_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/manifest"
)

// A process to be killed is this test program with victimEnv set to its directory.
const victimEnv = "PARLEY_TEST_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		fmt.Println("error", edit(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const secret = base + "secret/"

// openCrash opens a site on which a page below secret/ that is gone is a withdrawn one.
func openCrash(dir string) (*journal.Journal, *manifest.Snapshot, error) {
	j, err := journal.Open(filepath.Join(dir, "state"), &journal.Options{Wait: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	s := &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Parts: 300, Manifest: protocol.Manifest{URL: base + "robots.rdf", Base: base},
		Public: func(url string) bool {
			_, ok, _ := j.Get(url)
			return ok || !strings.HasPrefix(url, secret)
		}}
	s.SmallParts(20, 60)
	return j, s, s.Load(j)
}

// edit edits the site, and says so, until it is killed: it grows beyond the threshold and shrinks below half of it, and
// secret pages come and are withdrawn.
func edit(dir string) error {
	j, s, err := openCrash(dir)
	if err != nil {
		return err
	}
	for n := int(j.Head().Seq); ; n++ {
		var steps []journal.Step
		for i := range 12 {
			if j.Head().Seq/600%2 == 0 {
				steps = append(steps, create(page(j.Len()+i, fmt.Sprint("text ", n))))
			} else {
				steps = append(steps, remove(page(j.Len()-i, "").URL))
			}
		}
		it := page(n%100, fmt.Sprint("edit ", n))
		hidden := protocol.Item{URL: fmt.Sprint(secret, n%5), Title: fmt.Sprintf("secret title %d.", n%5), Length: 1}
		steps = append(steps, create(it), create(hidden), remove(fmt.Sprint(secret, (n+1)%5)))
		if _, err := j.Append(context.Background(), steps); err != nil {
			return err
		}
		if _, err := s.Write(context.Background(), j); err != nil {
			return err
		}
		fmt.Println("written")
	}
}

// A writer is killed at any instant. What is served then is an index with all of its parts, or one file; the next
// process goes on from there, removes what was left, and leaves no trace of a page that was withdrawn.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	r := newRig(t, 300)
	r.must(r.journal.Close())
	kills, indexes := 9, 0
	if testing.Short() {
		kills = 6
	}
	for kill := range kills {
		what := fmt.Sprint("kill ", kill)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimEnv+"="+r.dir)
		out, err := cmd.StdoutPipe()
		r.must(err)
		r.must(cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + rnd.IntN(30) {
			if !lines.Scan() || lines.Text() != "written" {
				t.Fatalf("%s: the writer said %q", what, lines.Text())
			}
		}
		killing := time.AfterFunc(time.Duration(rnd.IntN(30_000))*time.Microsecond, func() { cmd.Process.Kill() })
		for lines.Scan() { // the instant is within one of the next writes
		}
		killing.Stop()
		cmd.Wait()
		r.published()
		j, s, err := openCrash(r.dir)
		r.must(err)
		must.Get(s.Write(t.Context(), j))
		r.journal, r.snapshot = j, s
		truth := r.truth()
		r.check(what)
		if r.head().Whole != nil {
			indexes++
		}
		for _, f := range r.files() {
			if strings.HasSuffix(f, ".tmp") {
				t.Errorf("%s: %s was left", what, f)
			}
			text := r.text(f)
			for n := range 5 {
				if _, ok := truth[fmt.Sprint(secret, n)]; !ok && strings.Contains(text, fmt.Sprintf("secret title %d.", n)) {
					t.Errorf("%s: %s has a page that was withdrawn", what, f)
				}
			}
		}
		r.must(j.Close())
	}
	if !testing.Short() && (indexes == 0 || indexes == kills) {
		t.Errorf("%d of %d times there was an index: the test is too weak", indexes, kills)
	}
	j, s, err := openCrash(r.dir)
	r.must(err)
	defer j.Close()
	s.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	r.journal, r.snapshot = j, s
	for n := range 2 {
		r.append(create(page(1, fmt.Sprint("the end ", n))))
		r.write()
	}
	r.check("the end")
	if w := r.head().Whole; w != nil {
		if n := len(r.files()) - 1; n > 3*(len(w.Parts)+len(w.Changed)+1) {
			t.Errorf("%d files are left for %d parts", n, len(w.Parts)+len(w.Changed))
		}
	}
}
