package server_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

// Many clients whose filters match nothing in a long history do not delay clients that ask for recent
// changes.
func TestFiltersThatMatchNothingDelayNobody(t *testing.T) {
	d := newDepot(t, func(n *doors.Notifier) { n.Limits.PerAddress = 1000 })
	begin := d.Journal.Head()
	for i := range 4000 {
		d.Write(fmt.Sprintf("x/%d.html", i), "x")
	}
	d.Publish()
	ask := func() time.Duration {
		begun := time.Now()
		at := d.Journal.Head()
		at.Seq -= 10
		if m := d.told("after=" + at.String()); len(m.Changes) != 10 {
			t.Errorf("%+v", m)
		}
		return time.Since(begun)
	}
	ask()
	alone := ask()
	stop := make(chan struct{})
	var busy sync.WaitGroup
	looked := make(chan struct{}, 1000)
	for i := range 40 {
		busy.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := http.Get(fmt.Sprintf("%sparley/changes?match=/**/%d-%d*&minlen=5&wait=0&after=%s", d.Base, i, k, begin))
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				select {
				case looked <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 40 {
		<-looked
	}
	worst := time.Duration(0)
	for range 20 {
		worst = max(worst, ask())
	}
	close(stop)
	busy.Wait()
	t.Logf("alone %v, beside other clients %v at most", alone, worst)
	if worst > 2*time.Second {
		t.Errorf("a client that requests recent changes waits %v", worst)
	}
}

// Subscribers that read nothing, each with another filter, take up no more than a message each.
func TestMemoryOfSubscribersThatDoNotReadIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("a test of memory, of which the race detector needs more")
	}
	const readers = 40
	d := newArchivist(t, func(n *doors.Notifier) { n.Limits.PerAddress, n.Limits.WriteWait = readers, time.Hour })
	begin := d.Journal.Head()
	rnd := rand.NewChaCha8([32]byte{})
	for i := range 60 {
		b := make([]byte, 100_000)
		rnd.Read(b)
		d.Write(fmt.Sprintf("p%d.html", i), string(b))
	}
	d.Publish()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range readers {
		conn := must.Get(net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(d.Base, "http://"), "/")))
		defer conn.Close()
		d.Must(conn.(*net.TCPConn).SetReadBuffer(4096))
		fmt.Fprintf(conn, "GET /parley/stream?as=page&maxlen=%d&after=%s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
			100_000+i, begin, "localhost", []string{protocol.Subprotocol, protocol.SubprotocolZstd}[i%2])
		resp := must.Get(http.ReadResponse(bufio.NewReaderSize(conn, 1024), nil))
		if resp.StatusCode != 101 {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	// Once no more is sent, all wait for the messages that nobody reads.
	last, same := int64(-1), 0
	until(t, "nothing more is delivered", func() bool {
		if now := d.Notifier.Stats().Frames; now != last {
			last, same = now, 0
		} else {
			same++
		}
		time.Sleep(10 * time.Millisecond)
		return same > 50
	})
	after := heap()
	if took := (int64(after) - int64(before)) >> 20; took > readers {
		t.Errorf("%d subscribers take up %d MiB", readers, took)
	}
}

// A request with values that the site has never heard of is rejected with an explanation, or finds nothing:
// it is never a server error.
func TestUnknownRequestValuesAreNoServerError(t *testing.T) {
	d := newArchivist(t, func(n *doors.Notifier) { n.Content.Items = server.Moments(n.Log.(*server.Journal)) })
	at := d.Journal.Head().String()
	none := protocol.Sum([]byte("a page that nobody has")).String()
	for ref, want := range map[string]int{
		"parley/changes?as=other&after=" + at:                                           400,
		"parley/changes?as=site&after=" + at:                                            400, // not offered
		"parley/changes?every=7&after=" + at:                                            400,
		"parley/changes?as=batch&every=0&after=" + at:                                   400,
		"parley/changes?as=batch&count=100001&after=" + at:                              400,
		"parley/changes?as=batch&every=7&count=9&after=" + at:                           200,
		"parley/changes?where=true&after=" + at:                                         400,
		"parley/changes?agent=" + strings.ReplaceAll(none, "+", "%2B") + "&after=" + at: 400,
		"parley/changes?as=page&as=meta&after=" + at:                                    400,
		"parley/changes?" + strings.Repeat("prefix=/a&", 101) + "after=" + at:           400,
		"parley/batch?as=page&after=" + at:                                              400,
		"parley/site.wacz":                                                              404,
		"parley/agents":                                                                 404,
	} {
		resp, b := d.ask("GET", ref, "", "")
		if resp.StatusCode != want || want != 200 && resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.80s: status %d, want %d: %.300s", ref, resp.StatusCode, want, b)
		}
	}
	for _, c := range []struct {
		method, ref, mediaType, body string
		want                         int
	}{
		{"QUERY", "parley/changes", "application/x-www-form-urlencoded", "after=" + at, 200},
		{"POST", "parley/changes?after=" + at, "application/x-www-form-urlencoded", "prefix=/a", 200},
		{"POST", "parley/changes?after=" + at, "application/x-www-form-urlencoded", "after=" + at, 400},
		{"QUERY", "parley/changes", "application/json", "{}", 415},
		{"QUERY", "parley/changes", "application/x-www-form-urlencoded", strings.Repeat("prefix=/aaaaaaaaaaaaaaaaaaa&", 5000), 413},
	} {
		if resp, b := d.ask(c.method, c.ref, c.mediaType, c.body); resp.StatusCode != c.want {
			t.Errorf("%s %s %.50s: status %d, want %d: %.300s", c.method, c.ref, c.body, resp.StatusCode, c.want, b)
		}
	}
}
