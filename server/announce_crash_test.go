package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/manifest"
)

// A process to be killed is this test program with victimEnv set to its working directory.
const victimEnv = "PARLEY_TEST_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		fmt.Println("error", beAnnouncedTo(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func openAnnounced(dir string) (*server.Journal, error) {
	out := filepath.Join(dir, "robots.rdf")
	return server.OpenJournal(context.Background(), filepath.Join(dir, "state"), server.JournalOptions{Base: base, Published: out, Manifest: out, Wait: 10 * time.Second})
}

// beAnnouncedTo runs a notifier of a site without files. It prints the URL of its announce door.
func beAnnouncedTo(dir string) error {
	j, err := openAnnounced(dir)
	if err != nil {
		return err
	}
	inv := newShelf()
	p := &server.Publisher{Inventory: inv, Journal: j,
		Snapshot: &manifest.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: doors.Describe(base), Public: inv.Public}}
	n := &doors.Notifier{Log: j, Snapshot: p.Snapshot, Base: base, Public: inv.Public, Ready: p.Ready,
		Clients: doors.Clients{Announce: p.Announce, AnnounceTokens: []string{token}}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go p.Run(context.Background())
	fmt.Println("http://" + ln.Addr().String() + "/parley/announce")
	return http.Serve(ln, n)
}

// startVictim starts a victim and returns it with the URL of its announce door.
func startVictim(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if door := strings.TrimSpace(line); err == nil && strings.HasPrefix(door, "http:") {
		return cmd, door
	}
	cmd.Process.Kill()
	cmd.Wait()
	t.Fatalf("the killed process printed %q: %v", line, err)
	return nil, ""
}

// Two writers each announce the same 10,000 pages while the notifier is killed again and again. They repeat
// every request until it is answered, and every page is delivered exactly once.
func TestAnnounceCrash(t *testing.T) {
	t.Parallel()
	pages, kills := 10_000, 6
	if testing.Short() {
		pages, kills = 1000, 2
	}
	dir := t.TempDir()
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	var said []string
	for i := range pages {
		said = append(said, fmt.Sprintf(`{"url":"/n/%d","modified":%q}`, i, at))
	}
	c := newCrowd(t, dir)
	backwards := slices.Clone(said)
	slices.Reverse(backwards)
	c.sayAll([][]string{said, backwards}, kills)

	j := must.Get(openAnnounced(dir))
	defer j.Close()
	told := map[string]int{}
	for at := (protocol.Cursor{Epoch: j.Head().Epoch}); ; {
		changes := must.Get(j.Read(t.Context(), at, 1000))
		if len(changes) == 0 {
			break
		}
		for _, x := range changes {
			if x.Op != protocol.Create {
				t.Errorf("delivered %s", tell(x))
			}
			told[x.Item.URL]++
			at.Seq = x.Seq
		}
	}
	for i := range pages {
		if n := told[fmt.Sprintf("%sn/%d", base, i)]; n != 1 {
			t.Fatalf("page %d was delivered %d times", i, n)
		}
	}
	if len(told) != pages || j.Len() != pages {
		t.Errorf("%d pages delivered, %d in the journal, of %d", len(told), j.Len(), pages)
	}
	c.wantNoticed()
}

// Two writers announce for each of 400 pages that it was created in January and deleted in February, all of
// it twice and in random order, while the notifier is killed again and again. None exists in the end.
func TestAnnounceGoneCrash(t *testing.T) {
	t.Parallel()
	dir, random := t.TempDir(), rand.New(rand.NewPCG(3, 4))
	var said []string
	for i := range 400 {
		made := fmt.Sprintf(`{"url":"/n/%d","modified":"2026-01-15T00:00:00Z"}`, i)
		went := fmt.Sprintf(`{"url":"/n/%d","modified":"2026-02-15T00:00:00Z","gone":true}`, i)
		said = append(said, made, made, went, went)
	}
	random.Shuffle(len(said), func(i, j int) { said[i], said[j] = said[j], said[i] })
	c := newCrowd(t, dir)
	c.sayAll([][]string{said[:len(said)/2], said[len(said)/2:]}, 4)
	j := must.Get(openAnnounced(dir))
	defer j.Close()
	if n := j.Len(); n != 0 || j.Head().Seq == 0 {
		t.Errorf("%d deleted pages exist again, after %d changes", n, j.Head().Seq)
	}
	c.wantNoticed()
}

// A crowd announces to a victim that is killed again and again, and repeats every request until it is
// answered.
type crowd struct {
	*testing.T
	dir    string
	victim *exec.Cmd
	door   atomic.Value // URL of the victim's announce door

	acked, again, failed atomic.Int64 // pages acknowledged, those of them already known, and failed requests
}

func newCrowd(t *testing.T, dir string) *crowd {
	t.Helper()
	c := &crowd{T: t, dir: dir}
	c.start()
	return c
}

func (c *crowd) start() {
	c.Helper()
	var door string
	c.victim, door = startVictim(c.T, c.dir)
	c.door.Store(door)
}

func (c *crowd) kill() {
	c.victim.Process.Kill()
	c.victim.Wait()
}

// sayAll starts a writer for each of the lists while the victim is killed some times, and once at the end.
func (c *crowd) sayAll(lists [][]string, kills int) {
	c.Helper()
	var writers sync.WaitGroup
	pages := 0
	for n, list := range lists {
		pages += len(list)
		writers.Go(func() {
			for batch := range slices.Chunk(list, 41+n) {
				c.say(batch)
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	for k := 1; k <= kills; k++ {
		for c.acked.Load() < int64(pages*k/(kills+1)) && !c.Failed() {
			time.Sleep(time.Millisecond)
		}
		c.kill()
		c.start()
	}
	<-written
	c.kill()
}

func (c *crowd) say(batch []string) {
	body := []byte("[" + strings.Join(batch, ",") + "]")
	for !c.Failed() {
		req, err := http.NewRequest("POST", c.door.Load().(string), bytes.NewReader(body))
		if err != nil {
			c.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			var done protocol.Announced
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(b, &done) == nil:
				if n := done.Created + done.Deleted + done.Unchanged; n != len(batch) || len(done.Refused) > 0 {
					c.Errorf("%d pages: %+v", len(batch), done)
				}
				c.acked.Add(int64(len(batch)))
				c.again.Add(int64(done.Unchanged))
				return
			case err == nil && resp.StatusCode != http.StatusServiceUnavailable:
				c.Errorf("%s: %s", resp.Status, b)
				return
			}
		}
		c.failed.Add(1)
		time.Sleep(5 * time.Millisecond) // before the retry
	}
}

// wantNoticed checks that the kills caused failed requests; otherwise the test proves nothing.
func (c *crowd) wantNoticed() {
	c.Helper()
	c.Logf("%d pages acknowledged, %d of them already known; %d requests failed", c.acked.Load(), c.again.Load(), c.failed.Load())
	if c.failed.Load() == 0 {
		c.Error("no request failed because of a kill: the test shows nothing")
	}
}
