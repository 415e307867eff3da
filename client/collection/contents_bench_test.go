package collection_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/protocol"
)

// BenchmarkContents is what a page of 26 KB costs from the visit to the event,
// in turns of 1,000, without links: by where and how bodies are stored.
func BenchmarkContents(b *testing.B) {
	var text bytes.Buffer
	for i := 0; text.Len() < 26<<10; i++ {
		fmt.Fprintf(&text, "<tr><td><a href=\"page%d.html\">method %d of the class</a></td><td>returns what it did</td></tr>\n", i*7919%1000, i)
	}
	header := http.Header{"Content-Type": {"text/html"}, "Server": {"nginx"}, "Etag": {`"5f-1"`}, "Last-Modified": {"Mon, 02 Feb 2026 10:00:00 GMT"},
		"Content-Length": {fmt.Sprint(text.Len())}, "Date": {"Mon, 02 Feb 2026 10:00:00 GMT"}, "Accept-Ranges": {"bytes"}}
	for _, c := range []struct {
		name     string
		contents collection.Contents
		coding   string
	}{{"none", 0, ""}, {"warc", collection.WARC, ""}, {"gzip", collection.WARC, "gzip"}, {"zstd", collection.WARC, "zstd"}, {"mirror", collection.Mirror, ""}} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			o := &collection.Options{Contents: c.contents, Coding: c.coding, NoLinks: true}
			k := open(b, dir, o)
			n := 0
			for b.Loop() {
				const size = 1000
				var turn collection.Turn
				b.StopTimer()
				for i := range size {
					turn.Finds = append(turn.Finds, collection.Find{URL: fmt.Sprintf("https://a.example/dir%d/page-%d.html", n%7, n+i)})
				}
				out, err := k.Commit(&turn)
				if err != nil {
					b.Fatal(err)
				}
				turn = collection.Turn{}
				for i, p := range out.New {
					body := bytes.Clone(text.Bytes())
					copy(body, fmt.Sprint(n+i))
					turn.Visits = append(turn.Visits, collection.Visit{Page: p.ID, Asked: time.Now(), Status: 200, Proto: "HTTP/1.1", Header: header, Body: body,
						Digest: protocol.Sum(body), Type: "text/html", Title: "a page", ETag: `"5f-1"`})
				}
				n += size
				b.StartTimer()
				if _, err := k.Commit(&turn); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/page")
		})
	}
}
