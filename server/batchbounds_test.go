package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
)

func TestBatchRefusals(t *testing.T) {
	d := newDepot(t)
	d.Write("a.html", "<p>again")
	head := d.Publish()
	many := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"pages":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"url":"%sp/%d.html"}`, d.Base, i)
		}
		return b.String() + "]}"
	}
	const js = "application/json"
	for _, c := range []struct {
		what, method, ref, mediaType, body string
		status                             int
	}{
		{"no cursor", "GET", "parley/batch", "", "", 410},
		{"another epoch", "GET", "parley/batch?after=nope:1", "", "", 409},
		{"after the head", "GET", "parley/batch?after=" + head.Epoch + ":999", "", "", 409},
		{"to after the head", "GET", "parley/batch?after=" + head.String() + "&to=" + head.Epoch + ":999", "", "", 409},
		{"to before after", "GET", "parley/batch?after=" + head.String() + "&to=" + head.Epoch + ":0", "", "", 400},
		{"to of another epoch", "GET", "parley/batch?after=" + head.String() + "&to=nope:9", "", "", 400},
		{"no cursor at to", "GET", "parley/batch?after=" + head.String() + "&to=x", "", "", 400},
		{"another form", "GET", "parley/batch?as=page&after=" + head.String(), "", "", 400},
		{"unknown parameter", "GET", "parley/batch?nope=1", "", "", 400},
		{"another method", "PUT", "parley/batch", js, "{}", 405},
		{"no type", "QUERY", "parley/batch", "", "{}", 400},
		{"another type", "QUERY", "parley/batch", "text/csv", "{}", 415},
		{"no JSON", "QUERY", "parley/batch", js, "{", 400},
		{"a list", "QUERY", "parley/batch", js, "[]", 422},
		{"an unknown member", "QUERY", "parley/batch", js, `{"afterwards":"x:1"}`, 422},
		{"no cursor in it", "POST", "parley/batch", js, `{"after":7}`, 422},
		{"no digest in it", "POST", "parley/batch", js, `{"after":"` + head.String() + `","have":{"` + d.Base + `a.html":"md5"}}`, 422},
		{"both", "POST", "parley/batch", js, `{"after":"` + head.String() + `","pages":[]}`, 422},
		{"a foreign page", "POST", "parley/batch", js, `{"pages":[{"url":"https://elsewhere.example/"}]}`, 422},
		{"a page by its path", "POST", "parley/batch", js, `{"pages":[{"url":"/a.html"}]}`, 422},
		{"a page of user:password", "POST", "parley/batch", js, `{"pages":[{"url":"` + strings.Replace(d.Base, "//", "//u:p@", 1) + `"}]}`, 422},
		{"a filter for pages", "POST", "parley/batch?op=create", js, `{"pages":[]}`, 400},
		{"pages as an object", "POST", "parley/batch", js, `{"pages":{}}`, 422},
		{"a few too many", "POST", "parley/batch", js, many(10_001), 413},
		{"100,000", "POST", "parley/batch", js, many(100_000), 413},
		{"very long", "POST", "parley/batch", js, `{"pages":[{"url":"` + strings.Repeat("a", 9<<20) + `"}]}`, 413},
		{"coded", "HEAD", "parley/batch?after=" + head.String(), "", "", 200},
		{"nothing new", "GET", "parley/batch?after=" + head.String(), "", "", 200},
		{"no pages", "POST", "parley/batch", js, `{"pages":[]}`, 200},
		{"10,000", "POST", "parley/batch", js, many(10_000), 200},
	} {
		resp, b := d.ask(c.method, c.ref, c.mediaType, c.body)
		if resp.StatusCode != c.status {
			t.Errorf("%s: %s: %.300s", c.what, resp.Status, b)
		}
		if resp.StatusCode >= 400 {
			var p struct{ Title, Detail string }
			if err := json.Unmarshal(b, &p); err != nil || p.Detail == "" && p.Title == "" {
				t.Errorf("%s: refused without an explanation: %.200q", c.what, b)
			}
		}
	}
}

// A bundle ends before its pages exceed what its reader accepts, and the rest comes with the next.
func TestBundlesOfLargePages(t *testing.T) {
	d := newDepot(t)
	from := d.Journal.Head()
	var steps []journal.Step
	for i := range 300 {
		steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{
			URL: fmt.Sprintf("%sd/%d.html", d.Base, i), Length: 16 << 20, Digest: protocol.Sum(fmt.Append(nil, i))}}})
	}
	head, err := d.Journal.Append(t.Context(), steps)
	d.Must(err)
	bundles := 0
	for at := from; at != head; bundles++ {
		resp, err := http.Get(d.Base + "parley/batch?after=" + at.String())
		d.Must(err)
		resp.Body.Close()
		to, err := protocol.ParseCursor(resp.Header.Get("Parley-Cursor"))
		if err != nil || to.Seq <= at.Seq || (to.Seq-at.Seq)*16<<20 > doors.MaxBundle {
			t.Fatalf("%s: from %v to %v, %v", resp.Status, at, to, err)
		}
		at = to
	}
	if bundles != 3 {
		t.Errorf("%d bundles", bundles)
	}
}

// A client that does not read its bundle is cut off, and the number of bundles sent at a time is bounded, for
// each address.
func TestBundlesAreBounded(t *testing.T) {
	d := newDepot(t, func(n *doors.Notifier) { n.Limits.WriteWait = 1500 * time.Millisecond })
	from := d.Journal.Head()
	noise := rand.New(rand.NewPCG(1, 2))
	page := make([]byte, 1<<20)
	for i := range 16 {
		for j := range page {
			page[j] = byte(noise.Uint32())
		}
		d.Write(fmt.Sprintf("large%d.html", i), string(page))
	}
	d.Publish()
	ask := func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", d.Base+"parley/batch?after="+from.String(), nil)
		d.Must(err)
		req.Header.Set("X-Forwarded-For", "192.0.2.7")
		return http.DefaultClient.Do(req)
	}
	var open []*http.Response
	until(t, "no more bundles than four at a time", func() bool {
		resp, err := ask()
		d.Must(err)
		switch resp.StatusCode {
		case http.StatusOK:
			open = append(open, resp)
			return false
		case http.StatusServiceUnavailable: // a busy machine
			resp.Body.Close()
			return false
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || len(open) < 4 {
			t.Fatalf("after %d bundles: %s", len(open), resp.Status)
		}
		return true
	})
	until(t, "those who do not read are cut off", func() bool {
		resp, err := ask()
		if err != nil {
			return false // on a busy machine the time is over before its first byte
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	cut := false
	for _, resp := range open {
		r, err := bundle.NewReader(resp.Body, bundle.Limits{})
		if err == nil {
			for _, e := range r.Pages() {
				err = errors.Join(err, e)
			}
			r.Close()
		}
		cut = cut || errors.Is(err, io.ErrUnexpectedEOF) || err != nil && strings.Contains(err.Error(), "reset")
		resp.Body.Close()
	}
	if !cut {
		t.Error("a bundle that was cut off seems complete")
	}
}
