package versions_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server/versions"
)

// childPage returns a version that both the child and the test can generate.
func childPage(n uint64) []byte {
	page := text(rand.New(rand.NewPCG(n/7, 21)), 20_000)
	return binary.BigEndian.AppendUint64(page, n)
}

func childURL(n uint64) string { return fmt.Sprintf("%s%d.html", base, n%50) }

func childStore(dir string) *versions.Store {
	return &versions.Store{Dir: dir, MaxBytes: 1 << 20}
}

// TestMain also runs as the process to be killed, which stores versions for ever.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PARLEY_TEST_VERSIONS"); dir != "" {
		store := childStore(dir)
		for n := uint64(time.Now().UnixNano()); ; n++ {
			store.KeepPage(childURL(n), childPage(n))
			fmt.Println(n)
		}
	}
	os.Exit(m.Run())
}

// A store killed at any instant has only whole versions, and its counts match its files.
func TestKilledStoreHasWholeVersions(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	dir := filepath.Join(t.TempDir(), "versions")
	rnd := rand.New(rand.NewPCG(23, 24))
	kept, lost := 0, 0
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PARLEY_TEST_VERSIONS="+dir)
		out := must.Get(cmd.StdoutPipe())
		must.OK(t, cmd.Start())
		lines := bufio.NewScanner(out)
		var said []uint64
		for end := 1 + rnd.IntN(150); len(said) < end && lines.Scan(); {
			var n uint64
			fmt.Sscan(lines.Text(), &n)
			said = append(said, n)
		}
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Microsecond) // at a random moment within the next one
		cmd.Process.Kill()
		for lines.Scan() { // versions stored before the kill
			var n uint64
			if fmt.Sscan(lines.Text(), &n); len(lines.Text()) == len(fmt.Sprint(said[0])) { // the last line may be cut
				said = append(said, n)
			}
		}
		cmd.Wait()
		store := childStore(dir)
		st := store.Stats()
		files := 0
		shards, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
		for _, name := range shards {
			if strings.Contains(filepath.Base(name), "new-") {
				t.Errorf("%s is left over", name)
			}
			files++
		}
		if files != st.Versions || st.Bytes > 1<<20 || st.Trouble {
			t.Errorf("%d files, counted as %+v", files, st)
		}
		for _, n := range said {
			page := childPage(n)
			got, err := store.Page(t.Context(), item(childURL(n), page), 1<<20)
			switch {
			case err != nil:
				lost++ // there is space for only some
			case !bytes.Equal(got, page):
				t.Fatalf("%d: other bytes", n)
			default:
				kept++
			}
		}
		if got := store.Stats().Versions; got != st.Versions {
			t.Errorf("%d of %d versions were damaged", st.Versions-got, st.Versions)
		}
		if _, err := store.Page(t.Context(), item(childURL(said[len(said)-1]), childPage(said[len(said)-1])), 1<<20); err != nil {
			t.Errorf("the last stored version is missing: %v", err)
		}
	}
	if kept == 0 {
		t.Errorf("%d versions are stored, %d were lost", kept, lost)
	}
}
