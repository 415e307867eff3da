package endtoend

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// storm returns how many rounds of how many edits to try: a short form,
// unless PARLEY_STORM asks for another, as in PARLEY_STORM=50x5000.
func storm(t *testing.T) (rounds, edits int) {
	rounds, edits = 4, 300
	if s := os.Getenv("PARLEY_STORM"); s != "" {
		if _, err := fmt.Sscanf(s, "%dx%d", &rounds, &edits); err != nil {
			t.Fatalf("PARLEY_STORM=%s: want ROUNDSxEDITS", s)
		}
	}
	return rounds, edits
}

// TestKilledInEditStorm kills the notifier and the crawler at random instants while pages are edited, created,
// moved and deleted as fast as the disk allows. After restarts, the mirror equals the site; no number was
// used twice within an epoch; and no published file was ever torn.
func TestKilledInEditStorm(t *testing.T) {
	rounds, edits := storm(t)
	r := newRig(t)
	out := filepath.Join(r.root, "robots.rdf")
	r.flags = []string{"--out", out, "--write-every", "50ms", "--grace", "100ms"}
	for i := range 60 {
		r.write(fmt.Sprintf("d%d/p%d.html", i%6, i), fmt.Sprintf("page %d", i))
	}
	r.startNotifier()
	r.startCrawler()
	r.identical()

	w := newWitness(t, r, out)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range rounds {
		r.notifier.stop()
		backup := must.Get(os.ReadFile(r.state))
		r.startNotifier()
		var killed sync.WaitGroup
		killed.Go(func() {
			pick := rand.New(rand.NewPCG(seed, uint64(round)+2))
			for range 2 {
				time.Sleep(time.Duration(pick.IntN(300)) * time.Millisecond) // a random instant
				r.notifier.kill9()
				r.notifier = start(t, r.notifier, "notifier", append([]string{"--docroot", r.root, "--base", r.base,
					"--listen", r.sidecar, "--state", r.state, "--log-level", "info"}, r.flags...)...)
				time.Sleep(time.Duration(pick.IntN(300)) * time.Millisecond)
				r.crawler.kill9()
				r.startCrawler()
			}
		})
		r.storm(rnd, edits)
		killed.Wait()
		r.identical()
		if round%2 == 1 { // restore the state from before the round
			r.notifier.kill9()
			r.must(os.WriteFile(r.state, backup, 0o600))
			r.storm(rnd, edits/10)
			r.startNotifier()
			r.identical()
		}
		w.check()
	}
	w.stop()
}

// TestRestoredState restores the state from before the last run, as a backup or a stale cache does: a new
// epoch begins, and no follower misses a change, not even one that was delivered and never published.
func TestRestoredState(t *testing.T) {
	for _, out := range []string{"in the docroot", "beside the state"} {
		t.Run("manifest "+out, func(t *testing.T) {
			r := newRig(t)
			r.flags = []string{"--write-every", "1h", "--grace", "100ms"}
			manifest := r.state + ".robots.rdf"
			if out == "in the docroot" {
				manifest = filepath.Join(r.root, "robots.rdf")
				r.flags = append(r.flags, "--out", manifest)
			}
			for i := range 30 {
				r.write(fmt.Sprintf("p%d.html", i), fmt.Sprintf("page %d", i))
			}
			r.startNotifier()
			r.startCrawler()
			r.identical()
			r.write("p1.html", "the run before had its changes too")
			r.identical()
			r.notifier.stop()
			old := must.Get(os.ReadFile(r.state))
			before := r.published(manifest).Cursor

			r.startNotifier()
			for _, p := range []string{"p2.html", "p3.html", "new.html"} {
				r.write(p, "changed after the backup")
				r.identical()
			}
			r.notifier.kill9()
			r.must(os.WriteFile(r.state, old, 0o600))

			r.write("p2.html", "page 2") // as it was when the backup was made
			r.write("p4.html", "changed while nobody looked")
			r.must(os.Remove(r.path("p5.html")))
			r.startNotifier()
			r.identical()
			after := r.head()
			if after.Epoch == before.Epoch {
				t.Errorf("the epoch is still %s after the state was put back", before.Epoch)
			}
			if out == "beside the state" {
				return // losing the state loses both
			}
			r.notifier.kill9()
			r.must(os.Remove(r.state))
			r.write("p6.html", "changed while the state was lost")
			r.startNotifier()
			r.identical()
			if again := r.head(); again.Epoch == after.Epoch {
				t.Errorf("the epoch is still %s after the state was lost", after.Epoch)
			}
		})
	}
}

// storm edits the docroot as fast as it can.
func (r *rig) storm(rnd *rand.Rand, edits int) {
	page := func() string { return r.path(fmt.Sprintf("d%d/p%d.html", rnd.IntN(6), rnd.IntN(60))) }
	for i := range edits {
		p := page()
		switch k := rnd.IntN(20); {
		case k < 12:
			os.WriteFile(p, []byte(strconv.FormatUint(rnd.Uint64(), 36)), 0o644)
		case k < 16: // as editors save
			os.WriteFile(p+".tmp", []byte(fmt.Sprintf("saved %d %d", i, rnd.Uint64())), 0o644)
			os.Rename(p+".tmp", p)
		case k < 18:
			os.Rename(p, page())
		default:
			os.Remove(p)
		}
	}
}

// published reads the manifest that the notifier wrote.
func (r *rig) published(file string) protocol.Manifest {
	r.t.Helper()
	f := must.Get(os.Open(file))
	defer f.Close()
	return must.Get(readManifest(f))
}

func readManifest(f io.Reader) (protocol.Manifest, error) {
	for r := protocol.NewManifestReader(f, protocol.ManifestOptions{}); ; {
		if _, err := r.Next(); err == io.EOF {
			return r.Head(), nil
		} else if err != nil {
			return protocol.Manifest{}, err
		}
	}
}

// A witness reads the changes and the published file all the time, and remembers what every number stood for.
type witness struct {
	t    *testing.T
	r    *rig
	out  string
	quit chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	meaning map[protocol.Cursor]string
	faults  []string
	read    int
}

func newWitness(t *testing.T, r *rig, out string) *witness {
	w := &witness{t: t, r: r, out: out, quit: make(chan struct{}), meaning: map[protocol.Cursor]string{}}
	for _, f := range []func(){w.readChanges, w.readPublished} {
		w.done.Go(func() {
			for {
				select {
				case <-w.quit:
					return
				case <-time.After(3 * time.Millisecond):
					f()
				}
			}
		})
	}
	t.Cleanup(w.stop)
	return w
}

func (w *witness) stop() {
	select {
	case <-w.quit:
	default:
		close(w.quit)
	}
	w.done.Wait()
}

func (w *witness) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// readChanges polls the newest changes from a little before the head.
func (w *witness) readChanges() {
	f, err := os.Open(w.out)
	if err != nil {
		return
	}
	m, err := readManifest(f)
	f.Close()
	if err != nil {
		return // readPublished reports it
	}
	after := m.Cursor
	after.Seq -= min(after.Seq, 200)
	resp, err := http.Get(w.r.base + "parley/changes?after=" + after.String())
	if err != nil {
		return // killed
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return
	}
	msg, err := protocol.ParseMessage(b)
	if err != nil {
		w.fault("changes: %v", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range msg.Changes {
		at := protocol.Cursor{Epoch: msg.To.Epoch, Seq: c.Seq}
		meaning := fmt.Sprintf("%s %s %s %s", c.Op, c.Item.URL, c.From, c.Item.Digest)
		if was, ok := w.meaning[at]; ok && was != meaning {
			w.faults = append(w.faults, fmt.Sprintf("cursor %v had %q and now has %q", at, was, meaning))
		}
		w.meaning[at] = meaning
	}
}

func (w *witness) readPublished() {
	f, err := os.Open(w.out)
	if err != nil {
		w.fault("published: %v", err)
		return
	}
	defer f.Close()
	m, err := readManifest(f)
	if err != nil {
		w.fault("published: %v", err)
	} else if !m.Complete {
		w.fault("published an incomplete manifest")
	}
	w.mu.Lock()
	w.read++
	w.mu.Unlock()
}

// check fails the test if the witness saw a fault.
func (w *witness) check() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) > 0 {
		w.t.Fatalf("%d faults, the first: %s", len(w.faults), w.faults[0])
	}
	if len(w.meaning) == 0 || w.read == 0 {
		w.t.Fatal("the observer saw nothing")
	}
}
