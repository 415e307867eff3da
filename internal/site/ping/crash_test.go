package ping_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
)

// The victim is this test binary, run again: it sends until it is killed.
const victimEnv = "PARLEY_TEST_PING_VICTIM"

func TestMain(m *testing.M) {
	if site := os.Getenv(victimEnv); site != "" {
		fmt.Println(sendForEver(site, os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// sendForEver creates pages and sends them. It prints every page once the journal has it durably.
func sendForEver(site, dir string) error {
	ctx := context.Background()
	j, err := journal.Open(filepath.Join(dir, "journal"), nil)
	if err != nil {
		return err
	}
	if err := j.EndBaseline(); err != nil {
		return err
	}
	s := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: j, Base: site, Engines: []string{site + "engine"}, KeyDir: filepath.Join(dir, "docroot"), MaxBatch: 7}}
	if _, err := s.Turn(ctx); err != nil {
		return err
	}
	for n := j.Len(); ; {
		var steps []journal.Step
		for range 1 + rand.IntN(5) {
			it := protocol.Item{URL: fmt.Sprintf("%sp%04d", site, n), Length: -1, Modified: time.Now()}
			steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it}})
			n++
		}
		if _, err := j.Append(ctx, steps); err != nil {
			return err
		}
		for _, st := range steps {
			fmt.Println(st.Entry.Item.URL)
		}
		if _, err := s.Turn(ctx); err != nil {
			return err
		}
	}
}

// A sender killed at any instant has skipped nothing, and repeats at most the batch that was in flight.
func TestKilledWhileSending(t *testing.T) {
	kills := 25
	if testing.Short() {
		kills = 6
	}
	dir := t.TempDir()
	docroot := filepath.Join(dir, "docroot")
	must.OK(t, os.Mkdir(docroot, 0o755))
	var mu sync.Mutex
	var batches [][]string
	var victim *exec.Cmd
	deadly := 0 // the batch at which to kill, if any
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(docroot)))
	mux.HandleFunc("POST /engine", func(w http.ResponseWriter, r *http.Request) {
		var msg struct{ URLList []string }
		if err := json.NewDecoder(r.Body).Decode(&msg); err != nil {
			return // it was killed meanwhile
		}
		mu.Lock()
		defer mu.Unlock()
		batches = append(batches, msg.URLList)
		if len(batches) == deadly {
			victim.Process.Kill()
		}
	})
	web := httptest.NewUnstartedServer(mux)
	open, closed := 0, sync.NewCond(new(sync.Mutex)) // connections
	web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		closed.L.Lock()
		defer closed.L.Unlock()
		switch state {
		case http.StateNew:
			open++
		case http.StateClosed:
			open--
			closed.Broadcast()
		}
	}
	web.Start()
	defer web.Close()
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	site := web.URL + "/"
	var told []string
	var ends []int // the last batch before each kill
	for range kills {
		cmd := exec.Command(os.Args[0], dir)
		cmd.Env = append(os.Environ(), victimEnv+"="+site)
		cmd.Stderr = os.Stderr
		out := must.Get(cmd.StdoutPipe())
		mu.Lock()
		victim, deadly = cmd, len(batches)+1+rand.IntN(6)
		if rand.IntN(3) == 0 {
			deadly = 0
		}
		byLines := deadly == 0
		must.OK(t, cmd.Start())
		mu.Unlock()
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			told = append(told, lines.Text())
			if byLines && n == 12 {
				time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
				cmd.Process.Kill()
			}
		}
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() == 1 {
			t.Fatalf("the process to be killed ended by itself: %v %q", err, told[max(0, len(told)-1):])
		}
		// Its last request may not have been read yet. Connections are accepted in order: after this one,
		// none of its requests can come.
		resp := must.Get(once.Get(site))
		resp.Body.Close()
		closed.L.Lock()
		for open > 0 {
			closed.Wait()
		}
		closed.L.Unlock()
		mu.Lock()
		ends = append(ends, len(batches)-1)
		mu.Unlock()
	}

	// The last sender completes its work.
	j := must.Get(journal.Open(filepath.Join(dir, "journal"), nil))
	defer j.Close()
	s := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: j, Base: site, Engines: []string{site + "engine"}, KeyDir: docroot}}
	future := time.Now()
	s.Options.Now = func() time.Time { return future }
	for range 10 {
		r := must.Get(s.Turn(t.Context()))
		if r.Pending == 0 {
			break
		}
		future = future.Add(24 * time.Hour) // a retry that a killed sender left for later
	}
	sent := make(map[string]int) // the last batch with it, plus one
	repeated := make(map[int]bool)
	for i, b := range batches {
		for _, u := range b {
			if was := sent[u]; was > 0 {
				if !slices.Contains(ends, was-1) {
					t.Errorf("%s was sent with batch %d and again with batch %d, without a kill between", u, was-1, i)
				}
				repeated[was-1] = true
			}
			sent[u] = i + 1
		}
	}
	for _, u := range told {
		if sent[u] == 0 {
			t.Errorf("%s was never sent", u)
		}
	}
	v := must.Get(j.View())
	defer v.Close()
	for e, err := range v.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if sent[e.Item.URL] == 0 {
			t.Errorf("%s was never sent", e.Item.URL)
		}
	}
	t.Logf("%d kills, %d pages, %d batches, %d of them repeated", kills, len(sent), len(batches), len(repeated))
	if len(repeated) == 0 && kills > 10 {
		t.Error("no kill happened during a batch")
	}
}
