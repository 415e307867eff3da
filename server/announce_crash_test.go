package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A process that is to be killed is this test program with victimEnv set to
// the directory that it works in.
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

// beAnnouncedTo is a notifier of a site that is not files. It prints where it listens.
func beAnnouncedTo(dir string) error {
	j, err := openAnnounced(dir)
	if err != nil {
		return err
	}
	inv := newShelf()
	p := &server.Publisher{Inventory: inv, Journal: j,
		Snapshot: &server.Snapshot{Path: filepath.Join(dir, "robots.rdf"), Manifest: server.Describe(base), Public: inv.Public}}
	n := &server.Notifier{Log: j, Snapshot: p.Snapshot, Base: base, Public: inv.Public, Ready: p.Ready,
		Announce: p.Announce, AnnounceTokens: []string{token}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go p.Run(context.Background())
	fmt.Println("http://" + ln.Addr().String() + "/parley/announce")
	return http.Serve(ln, n)
}

// startVictim starts one and returns it, and where it listens.
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
	t.Fatalf("the victim said %q: %v", line, err)
	return nil, ""
}

// Two writers announce 10,000 pages, both of them every one, while the
// notifier is killed again and again. They say everything until they are
// answered, and every page is told exactly once.
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
	victim, first := startVictim(t, dir)
	var door atomic.Value
	door.Store(first)

	var acked, again, failed atomic.Int64
	say := func(batch []string) {
		body := []byte("[" + strings.Join(batch, ",") + "]")
		for !t.Failed() {
			req, err := http.NewRequest("POST", door.Load().(string), bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				var done server.Announced
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				switch {
				case err == nil && resp.StatusCode == http.StatusOK && json.Unmarshal(b, &done) == nil:
					if n := done.Created + done.Unchanged; n != len(batch) || len(done.Refused) > 0 {
						t.Errorf("%d pages: %+v", len(batch), done)
					}
					acked.Add(int64(len(batch)))
					again.Add(int64(done.Unchanged))
					return
				case err == nil && resp.StatusCode != http.StatusServiceUnavailable:
					t.Errorf("%s: %s", resp.Status, b)
					return
				}
			}
			failed.Add(1)
			time.Sleep(5 * time.Millisecond) // before it is said again
		}
	}
	backwards := slices.Clone(said)
	slices.Reverse(backwards)
	var writers sync.WaitGroup
	for n, list := range [][]string{said, backwards} {
		writers.Go(func() {
			for batch := range slices.Chunk(list, 41+n) {
				say(batch)
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	for k := 1; k <= kills; k++ {
		for acked.Load() < int64(2*pages*k/(kills+1)) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		victim.Process.Kill()
		victim.Wait()
		var next string
		victim, next = startVictim(t, dir)
		door.Store(next)
	}
	<-written
	victim.Process.Kill()
	victim.Wait()

	j, err := openAnnounced(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	told := map[string]int{}
	for c := (protocol.Cursor{Epoch: j.Head().Epoch}); ; {
		changes, err := j.Read(t.Context(), c, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) == 0 {
			break
		}
		for _, x := range changes {
			if x.Op != protocol.Create {
				t.Errorf("told %s", tell(x))
			}
			told[x.Item.URL]++
			c.Seq = x.Seq
		}
	}
	for i := range pages {
		if n := told[fmt.Sprintf("%sn/%d", base, i)]; n != 1 {
			t.Fatalf("page %d is told %d times", i, n)
		}
	}
	if len(told) != pages || j.Len() != pages {
		t.Errorf("%d pages told, %d held, of %d", len(told), j.Len(), pages)
	}
	t.Logf("%d pages acknowledged, %d of them known already; %d requests came to nothing", acked.Load(), again.Load(), failed.Load())
	if failed.Load() == 0 {
		t.Error("the kills were not noticed: the test shows nothing")
	}
}
