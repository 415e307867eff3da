package harvest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// A batch stored as a file is all that a harvester on another machine needs (V15).
func TestBatchAsAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(5)
		defer w.Close()
		b := everything(w, 10)
		b.Number = 7
		b.Sites[0].Tasks[0].Want = protocol.Sum([]byte("something"))
		b.Sites[0].Tasks[0].IfNoneMatch = `"<tag>"`
		b.Sites[0].Delay = 20 * time.Second
		dir := t.TempDir()
		must.OK(t, harvest.StoreBatch(dir, b, time.Now()))
		read := readBatch(t, dir)
		if !reflect.DeepEqual(read, b) {
			t.Fatalf("%+v", read)
		}
		for url, a := range harvestAll(t, newHarvester(w), read) {
			if a.Status != 200 {
				t.Errorf("%s: %d %v", url, a.Status, a.Err)
			}
		}
	})
}

// readBatch reads the only file of a directory, which must be a whole batch.
func readBatch(t *testing.T, dir string) *harvest.Batch {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(names) != 1 || filepath.Ext(names[0]) != ".jsonl" {
		t.Fatalf("files %q", names)
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	var head struct{ Batch uint64 }
	var end struct {
		End          bool
		Sites, Tasks int
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	last, tasks := len(lines)-1, 0
	err = errors.Join(json.Unmarshal(lines[0], &head), json.Unmarshal(lines[last], &end))
	b := &harvest.Batch{Number: head.Batch, Sites: make([]harvest.SiteBatch, last-1)}
	for i := range b.Sites {
		err = errors.Join(err, json.Unmarshal(lines[1+i], &b.Sites[i]))
		tasks += len(b.Sites[i].Tasks)
	}
	if err != nil || !end.End || end.Sites != len(b.Sites) || end.Tasks != tasks {
		t.Fatalf("%d sites, %d tasks, last line %s: %v", len(b.Sites), tasks, lines[last], err)
	}
	return b
}

// Whatever a server sends, there is one answer, within bounds.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nuntil the end",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
		"HTTP/1.1 302 Found\r\nLocation: //elsewhere.example/\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-4/10\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\r\n",
		"<title>1991</title>",
	} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, ranges bool) {
		h := &harvest.Harvester{
			Options: harvest.Options{Private: true, Wait: -1, Range: ranges, MaxBytes: 1000,
				Dial: func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					go io.Copy(io.Discard, there)
					go func() {
						there.Write(text)
						there.Close()
					}()
					return here, nil
				}},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // Retry-After may be long
		defer cancel()
		n := 0
		err := h.Run(ctx, once(&harvest.Batch{Sites: []harvest.SiteBatch{{Origin: "http://127.0.0.1", Tasks: []harvest.Task{{URL: "http://127.0.0.1/"}}}}}), func(a *harvest.Answer) {
			n++
			if len(a.Body) > 64<<10 || (a.Err == nil) != (a.Fault == "") || a.Fault == "" && a.Status == 0 || a.IP != netip.MustParseAddr("127.0.0.1") {
				t.Errorf("%d bytes, %d %q %v %v", len(a.Body), a.Status, a.Fault, a.Err, a.IP)
			}
			a.Release()
		})
		if n != 1 || err != nil {
			t.Errorf("%d answers: %v", n, err)
		}
	})
}
