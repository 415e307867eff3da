package harvest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/protocol"
)

// A batch written to a file is all that a harvester on another machine needs (V15).
func TestBatchAsAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := honest(5)
		defer w.Close()
		b := everything(w, 10)
		b.Number = 7
		b.Sites[0].Tasks[0].Want = protocol.Sum([]byte("something"))
		b.Sites[0].Tasks[0].IfNoneMatch = `"<tag>"`
		b.Sites[0].Delay = 20 * time.Second
		var file bytes.Buffer
		if err := harvest.WriteBatch(&file, b); err != nil {
			t.Fatal(err)
		}
		read, err := harvest.ReadBatch(bytes.NewReader(file.Bytes()))
		if err != nil || !reflect.DeepEqual(read, b) {
			t.Fatalf("%+v: %v", read, err)
		}
		for url, a := range harvestAll(t, newHarvester(w), read) {
			if a.Status != 200 {
				t.Errorf("%s: %d %v", url, a.Status, a.Err)
			}
		}
		for n := range file.Len() {
			if _, err := harvest.ReadBatch(bytes.NewReader(file.Bytes()[:n])); err == nil && n < file.Len()-1 {
				t.Fatalf("read %d bytes of %d", n, file.Len())
			}
		}
		if _, err := harvest.ReadBatch(strings.NewReader(`{"batch":1}` + "\n")); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut short: %v", err)
		}
		for _, bad := range []string{
			`{"end":true}`, `{}`, `{"batch":1}` + "\n" + `{"end":true,"sites":1,"tasks":0}`,
			`{"batch":1}` + "\n" + `{"site":1,"origin":"http://a.example","tasks":[{"url":"http://b.example/"}]}` + "\n" + `{"end":true,"sites":1,"tasks":1}`,
			`{"batch":1}` + "\n" + `{"site":1,"origin":"http://a.example/x","tasks":[]}` + "\n" + `{"end":true,"sites":1,"tasks":0}`,
		} {
			if b, err := harvest.ReadBatch(strings.NewReader(bad)); err == nil {
				t.Errorf("%s: %+v", bad, b)
			}
		}
	})
}

func FuzzReadBatch(f *testing.F) {
	f.Add([]byte(`{"batch":1}` + "\n" + `{"site":1,"origin":"http://a.example","pages":3,"delay":5,"tasks":[{"page":1,"url":"http://a.example/"}]}` + "\n" + `{"end":true,"sites":1,"tasks":1}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := harvest.ReadBatch(bytes.NewReader(text))
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := harvest.WriteBatch(&file, b); err != nil {
			t.Fatal(err)
		}
		again, err := harvest.ReadBatch(&file)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := json.Marshal(b)
		two, _ := json.Marshal(again)
		if !bytes.Equal(one, two) {
			t.Errorf("%s is read back as %s", one, two)
		}
	})
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
