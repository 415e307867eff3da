package static_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

const childDir = "PARLEY_TEST_CHILD" // working directory of the child process

// crashOutputs returns the outputs below dir for a web of some 40 pages.
func crashOutputs(dir string) []server.Output {
	root := filepath.Join(dir, "root")
	s := &static.Sitemap{Path: filepath.Join(root, "sitemap.xml"), Base: webBase, MaxURLs: 10, Precompress: true}
	s.Begin(8)
	return []server.Output{s,
		&static.Feeds{Atom: filepath.Join(root, "feed.atom"), RSS: filepath.Join(root, "feed.rss"), Base: webBase, Precompress: true},
	}
}

// A writer is killed again and again, at any point: no file is ever torn, the index never names a missing
// part, and the next writer finds nothing to tidy up.
func TestKilledWriterLeavesWholeFiles(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		writeForever(t, dir)
	}
	w := newWeb(t)
	w.pages(40)
	w.must(w.journal.Close())
	rounds, inTheMiddle := 10, 0
	if testing.Short() {
		rounds = 6
	}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriterLeavesWholeFiles$")
		cmd.Env = append(os.Environ(), childDir+"="+w.dir)
		out, err := cmd.StdoutPipe()
		w.must(err)
		w.must(cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "writing\n" {
			t.Fatalf("the writer says %q, %v", line, err)
		}
		time.Sleep(time.Duration(r.IntN(120)) * time.Millisecond) // at a random moment
		w.must(cmd.Process.Kill())
		cmd.Wait()

		if _, err := readSitemap(w.root, "sitemap.xml"); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if slices.ContainsFunc(w.names(), isTemporary) {
			inTheMiddle++
		}
		for _, name := range slices.DeleteFunc(w.names(), isTemporary) {
			if err := isWhole(filepath.Join(w.root, name)); err != nil {
				t.Fatalf("round %d: %s: %v", round, name, err)
			}
		}
		j := must.Get(journal.Open(filepath.Join(w.dir, "state"), nil))
		w.journal = j
		for _, o := range crashOutputs(w.dir) {
			s, ok := o.(*static.Sitemap)
			for hours := time.Duration(0); ok && hours < 20; hours += 10 { // until nobody has an old index any more
				s.Now = func() time.Time { return time.Now().Add(hours * time.Hour) }
				must.Get(s.Write(t.Context(), j))
			}
			must.Get(o.Write(t.Context(), j))
		}
		w.wantListed(fmt.Sprintf("round %d", round))
		want := []string{"feed.atom", "feed.rss", "sitemap.xml"}
		want = append(want, w.named()...)
		for _, name := range want {
			w.wantSiblings(name)
			want = append(want, name+".gz", name+".zst")
		}
		slices.Sort(want)
		w.wantNames(fmt.Sprintf("round %d", round), want...)
		w.must(j.Close())
	}
	t.Logf("killed %d times, %d of them with a file half written", rounds, inTheMiddle)
}

func isTemporary(name string) bool { return strings.HasSuffix(name, ".tmp") }

// isWhole reports an error if a file does not end as a writer ends it.
func isWhole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := coding.NewReader(f)
	if err != nil {
		return err
	}
	defer in.Close()
	b, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(b))
	if !slices.ContainsFunc([]string{"</urlset>", "</sitemapindex>", "</feed>", "</rss>"}, func(end string) bool { return strings.HasSuffix(text, end) }) {
		return errors.New("it is torn")
	}
	return nil
}

// writeForever writes the outputs of a site that changes all the time.
func writeForever(t *testing.T, dir string) {
	j := must.Get(journal.Open(filepath.Join(dir, "state"), &journal.Options{Wait: 10 * time.Second}))
	outputs := crashOutputs(dir)
	for i := 0; ; i++ {
		var steps []journal.Step
		for range 1 + rand.IntN(12) {
			u := fmt.Sprint(webBase, "u", rand.IntN(40))
			op := protocol.Update // or Create, depending on the journal
			if rand.IntN(2) == 0 {
				op = protocol.Delete
			}
			steps = append(steps, journal.Step{Op: op, Entry: journal.Entry{Item: protocol.Item{URL: u, Length: -1,
				Digest: protocol.Sum([]byte(fmt.Sprint(rand.Uint64()))), Modified: time.Now()}}})
		}
		must.Get(j.Append(t.Context(), steps))
		for _, o := range outputs {
			must.Get(o.Write(t.Context(), j))
		}
		if i == 0 {
			fmt.Println("writing")
		}
	}
}
