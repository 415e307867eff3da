//go:build unix

package collection_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// BenchmarkContents measures a page of 26 KB from the visit to the event,
// 1,000 in a transaction, without links, for each way of storing bodies. Parsed pages
// are recognized by the digest of what was parsed, others by that of the body; half the
// pages of "twins" have the body of another page.
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
		parsed   bool
		twins    int
	}{{"none", 0, "", true, 1}, {"warc", collection.WARC, "", true, 1}, {"unparsed", collection.WARC, "", false, 1}, {"twins", collection.WARC, "", true, 2},
		{"gzip", collection.WARC, "gzip", true, 1}, {"zstd", collection.WARC, "zstd", true, 1}, {"mirror", collection.Mirror, "", true, 1}} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			o := &collection.Options{Contents: c.contents, Coding: c.coding, NoLinks: true}
			k := open(b, dir, o)
			n := 0
			var used time.Duration
			for b.Loop() {
				const size = 1000
				var turn collection.Commit
				b.StopTimer()
				for i := range size {
					turn.Finds = append(turn.Finds, collection.Find{URL: fmt.Sprintf("https://a.example/dir%d/page-%d.html", n%7, n+i)})
				}
				out := must.Get(k.Commit(&turn))
				turn = collection.Commit{}
				for i, p := range out.New {
					body := bytes.Clone(text.Bytes())
					copy(body, fmt.Sprint((n+i)/c.twins))
					v := collection.Visit{Page: p.ID, Asked: time.Now(), Status: 200, Proto: "HTTP/1.1", Header: header, Body: body,
						Digest: protocol.Sum(body), Type: "text/html", Title: "a page", ETag: `"5f-1"`}
					if c.parsed {
						v.Parsed = v.Digest
						v.Parsed[0]++
					}
					turn.Visits = append(turn.Visits, v)
				}
				n += size
				b.StartTimer()
				start := cpu()
				must.Get(k.Commit(&turn))
				used += cpu() - start
			}
			b.ReportMetric(float64(used.Microseconds())/float64(n), "cpu-µs/page")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/page")
		})
	}
}
