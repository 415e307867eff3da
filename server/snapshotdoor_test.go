package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// do sends a request without decoding the response's content coding.
func (d *depot) do(r *http.Request) (*http.Response, []byte) {
	d.Helper()
	plain := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp := must.Get(plain.Do(r))
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))
	return resp, b
}

// manifest requests the manifest with a method and header fields.
func (d *depot) manifest(method string, header ...string) (*http.Response, []byte) {
	d.Helper()
	r := must.Get(http.NewRequestWithContext(d.Context(), method, d.Base+"robots.rdf", nil))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return d.do(r)
}

// A telling is a parsed manifest.
type telling struct {
	head  protocol.Manifest
	items map[string]protocol.Digest
	gone  map[string]bool
}

func (d *depot) read(b []byte) telling {
	d.Helper()
	m := protocol.NewManifestReader(bytes.NewReader(b), protocol.ManifestOptions{URL: d.Base + "robots.rdf", Origin: protocol.Origin(d.Base)})
	r := telling{items: map[string]protocol.Digest{}, gone: map[string]bool{}}
	for {
		rec, err := m.Next()
		if err == io.EOF {
			break
		}
		d.Must(err)
		if rec.Gone != nil {
			r.gone[rec.Gone.URL] = true
		} else {
			r.items[rec.Item.URL] = rec.Item.Digest
		}
	}
	r.head = m.Head()
	return r
}

// turn publishes changes and writes the manifest.
func (d *depot) turn() {
	d.Helper()
	d.Publish()
	must.Get(d.Publisher.Turn(d.Context()))
}

// A client with an earlier manifest gets the changes since (RFC 3229), and with them the content of the whole
// manifest.
func TestManifestFeed(t *testing.T) {
	d := newDepot(t)
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range 60 {
		d.Write(fmt.Sprintf("p%d.html", i), fmt.Sprint("page ", i))
	}
	d.turn()
	resp, whole := d.manifest("GET")
	etags := []string{resp.Header.Get("Etag")}
	copies := []map[string]protocol.Digest{d.read(whole).items}
	for step := range 12 {
		for range 1 + rnd.IntN(3) {
			d.Write(fmt.Sprintf("p%d.html", rnd.IntN(60)), fmt.Sprint("step ", step, rnd.Uint64()))
		}
		switch step % 3 {
		case 0:
			d.Write(fmt.Sprintf("new%d.html", step), "new")
		case 1:
			os.Remove(filepath.Join(d.Root, fmt.Sprintf("p%d.html", rnd.IntN(60))))
		case 2:
			os.Rename(filepath.Join(d.Root, fmt.Sprintf("p%d.html", rnd.IntN(60))), filepath.Join(d.Root, fmt.Sprintf("m%d.html", step)))
		}
		d.turn()
		resp, whole = d.manifest("GET")
		want := d.read(whole)
		for i, etag := range etags {
			resp, b := d.manifest("GET", "A-IM", "gzip, feed", "If-None-Match", `"other", W/`+etag)
			if resp.StatusCode != 226 || resp.Header.Get("IM") != "feed" || !strings.Contains(resp.Header.Get("Vary"), "A-IM") {
				t.Fatalf("step %d, tag %d: status %d, %v", step, i, resp.StatusCode, resp.Header)
			}
			if resp.Header.Get("Etag") != d.etag() || resp.Header.Get("Content-Type") != protocol.ManifestType || len(b) >= len(whole) {
				t.Errorf("%v, %d bytes of %d", resp.Header, len(b), len(whole))
			}
			feed := d.read(b)
			if feed.head.Complete || feed.head.Cursor != want.head.Cursor || feed.head.Items != len(feed.items) {
				t.Errorf("%+v", feed.head)
			}
			mine := maps.Clone(copies[i])
			for url := range feed.gone {
				delete(mine, url)
			}
			maps.Copy(mine, feed.items)
			if !maps.Equal(mine, want.items) {
				t.Errorf("step %d: with the changes since tag %d there are %d items, want %d", step, i, len(mine), len(want.items))
			}
		}
		etags, copies = append(etags, resp.Header.Get("Etag")), append(copies, want.items)
	}
	for name, ask := range map[string][]string{
		"unknown":        {"A-IM", "feed", "If-None-Match", `"0123456789abcdef0123456789abcdef"`},
		"of other epoch": {"A-IM", "feed", "If-None-Match", `"other.1.0123456789abcdef0123456789abcdef"`},
		"of later":       {"A-IM", "feed", "If-None-Match", fmt.Sprintf(`"%s.99999.0"`, d.Journal.Head().Epoch)},
		"none":           {"A-IM", "feed"},
		"no feed":        {"If-None-Match", etags[0]},
		"other IM":       {"A-IM", "vcdiff", "If-None-Match", etags[0]},
	} {
		if resp, b := d.manifest("GET", ask...); resp.StatusCode != 200 || !bytes.Equal(b, whole) || resp.Header.Get("IM") != "" {
			t.Errorf("%s: status %d, %d bytes", name, resp.StatusCode, len(b))
		}
	}
	if resp, b := d.manifest("GET", "A-IM", "feed", "If-None-Match", d.etag()); resp.StatusCode != 304 || len(b) > 0 {
		t.Errorf("unchanged: status %d", resp.StatusCode)
	}
	if resp, b := d.manifest("HEAD", "A-IM", "feed", "If-None-Match", etags[0]); resp.StatusCode != 200 || len(b) > 0 || resp.ContentLength != int64(len(whole)) {
		t.Errorf("HEAD: status %d, %v", resp.StatusCode, resp.Header)
	}
	if resp, b := d.manifest("GET", "A-IM", "feed", "If-None-Match", etags[0], "Range", "bytes=10-19"); resp.StatusCode != 206 || !bytes.Equal(b, whole[10:20]) {
		t.Errorf("range: status %d %q", resp.StatusCode, b)
	}
	// A feed has no page that the current rules forbid.
	d.Write("robots.txt", "User-agent: *\nDisallow: /new\n")
	d.turn()
	if resp, b := d.manifest("GET", "A-IM", "feed", "If-None-Match", etags[0]); resp.StatusCode != 226 || strings.Contains(string(b), "<item rdf:about=\""+d.Base+"new") {
		t.Errorf("status %d: %s", resp.StatusCode, b)
	}
}

// Clients that ask for the changes since each of many manifests are all answered, while others ask too, and
// each with the changes since its own.
func TestManyManifestFeeds(t *testing.T) {
	const feeds = 40 // more than are cached
	d := newDepot(t)
	for i := range 2 * feeds {
		d.Write(fmt.Sprintf("many/%d.html", i), "<p>")
	}
	d.turn()
	var tags []string
	for i := range feeds {
		tags = append(tags, d.etag())
		d.Write(fmt.Sprintf("p%d.html", i), "<p>")
		d.turn()
	}
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			for round := range 3 {
				for i := range tags {
					i = (i*7 + k + round) % feeds
					resp, b := d.manifest("GET", "A-IM", "feed", "If-None-Match", tags[i], "Accept-Encoding", "zstd")
					r, err := coding.NewReader(bytes.NewReader(b))
					if err == nil {
						b, err = io.ReadAll(r)
					}
					if err != nil {
						t.Error(err)
						return
					}
					// If it cannot be made because of others, the whole manifest comes instead.
					want := map[int]int{226: feeds - i, 200: 3*feeds + 1}[resp.StatusCode]
					if got := bytes.Count(b, []byte("<item ")); got != want {
						t.Errorf("since tag %d: status %d, %d items, want %d", i, resp.StatusCode, got, want)
					}
				}
			}
		})
	}
	all.Wait()
	for i := range tags {
		if resp, _ := d.manifest("GET", "A-IM", "feed", "If-None-Match", tags[i]); resp.StatusCode != 226 {
			t.Errorf("since tag %d: status %d", i, resp.StatusCode)
		}
	}
}

func (d *depot) etag() string {
	d.Helper()
	resp, _ := d.manifest("HEAD")
	return resp.Header.Get("Etag")
}

// A Last-Modified that was sent while the clock was ahead is ignored once the clock is right, and no future
// one is sent.
func TestManifestDateAhead(t *testing.T) {
	d := newDepot(t)
	d.turn()
	resp, whole := d.manifest("GET")
	date := resp.Header.Get("Last-Modified")
	if resp, _ := d.manifest("GET", "If-Modified-Since", date); date == "" || resp.StatusCode != 304 {
		t.Errorf("since %q: status %d", date, resp.StatusCode)
	}
	ahead := time.Now().AddDate(1, 0, 0)
	for _, coded := range []string{"", "gzip"} {
		resp, _ := d.manifest("GET", "If-Modified-Since", ahead.UTC().Format(http.TimeFormat), "Accept-Encoding", coded)
		if resp.StatusCode != 200 {
			t.Errorf("%q with a future date: status %d", coded, resp.StatusCode)
		}
	}
	d.Must(os.Chtimes(filepath.Join(filepath.Dir(d.Root), "robots.rdf"), ahead, ahead))
	d.turn()
	if resp, b := d.manifest("GET", "If-Modified-Since", date); resp.StatusCode != 200 || !bytes.Equal(b, whole) || resp.Header.Get("Last-Modified") != "" {
		t.Errorf("written while the clock was ahead: status %d, %d bytes, %v", resp.StatusCode, len(b), resp.Header)
	}
}

// The manifest comes compressed for clients that accept it, each form with its own entity tag, and any of the
// tags gives a 304 (C33).
func TestManifestContentCodings(t *testing.T) {
	d := newDepot(t)
	for i := range 60 {
		d.Write(fmt.Sprintf("p%d.html", i), fmt.Sprint("page ", i))
	}
	d.turn()
	_, whole := d.manifest("GET")
	tags := map[string]string{}
	for accept, want := range map[string]string{
		"": "", "identity": "", "br": "", "gzip": "gzip", "gzip, zstd": "zstd", "zstd;q=0.5, gzip": "gzip", "zstd;q=0, gzip;q=0.1": "gzip",
		"gzip;q=0": "", "GZIP ; Q=1.0": "gzip", "zstd;q=x": "",
	} {
		resp, b := d.manifest("GET", "Accept-Encoding", accept)
		if got := resp.Header.Get("Content-Encoding"); resp.StatusCode != 200 || got != want || !strings.Contains(resp.Header.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%q: status %d, %q", accept, resp.StatusCode, got)
			continue
		}
		if want != "" && len(b)*3 > len(whole) {
			t.Errorf("%q: %d bytes of %d", accept, len(b), len(whole))
		}
		r, err := coding.NewReader(bytes.NewReader(b))
		d.Must(err)
		if b, err = io.ReadAll(r); err != nil || !bytes.Equal(b, whole) {
			t.Errorf("%q: %d bytes, %v", accept, len(b), err)
		}
		tags[want] = resp.Header.Get("Etag")
	}
	if len(tags) != 3 || tags[""] == tags["gzip"] || tags["zstd"] == tags["gzip"] {
		t.Fatalf("%v", tags)
	}
	for _, accept := range []string{"", "gzip", "zstd"} {
		for coded, tag := range tags {
			resp, b := d.manifest("GET", "Accept-Encoding", accept, "If-None-Match", tag)
			if resp.StatusCode != 304 || len(b) > 0 || resp.Header.Get("Etag") != tag {
				t.Errorf("%q by the tag of %q: status %d %v", accept, coded, resp.StatusCode, resp.Header)
			}
		}
		resp, part := d.manifest("GET", "Accept-Encoding", accept, "Range", "bytes=0-99", "If-Range", tags[accept])
		if resp.StatusCode != 206 || len(part) != 100 || resp.Header.Get("Etag") != tags[accept] {
			t.Errorf("part of %q: status %d, %d bytes", accept, resp.StatusCode, len(part))
		}
		if resp, part = d.manifest("HEAD", "Accept-Encoding", accept); resp.StatusCode != 200 || len(part) > 0 || resp.Header.Get("Content-Encoding") != accept {
			t.Errorf("HEAD of %q: status %d %v", accept, resp.StatusCode, resp.Header)
		}
	}
	// An entity tag of any coding is equally good for a feed of changes.
	d.Write("p0.html", "other")
	d.turn()
	resp, b := d.manifest("GET", "A-IM", "feed", "Accept-Encoding", "gzip", "If-None-Match", tags["zstd"])
	if resp.StatusCode != 226 || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("status %d %v", resp.StatusCode, resp.Header)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	d.Must(err)
	if b, err = io.ReadAll(z); err != nil || len(d.read(b).items) != 1 {
		t.Errorf("%s, %v", b, err)
	}
}

// Changes come compressed too, if they are long enough.
func TestChangesContentCodings(t *testing.T) {
	d := newDepot(t)
	begin := d.Journal.Head()
	for i := range 30 {
		d.Write(fmt.Sprintf("p%d.html", i), "x")
	}
	d.Publish()
	_, plain := d.askAs("", "parley/changes?after="+begin.String())
	for _, name := range []string{"gzip", "zstd"} {
		r, err := http.NewRequest("GET", d.Base+"parley/changes?after="+begin.String(), nil)
		d.Must(err)
		r.Header.Set("Accept-Encoding", name)
		resp, b := d.do(r)
		if resp.Header.Get("Content-Encoding") != name || len(b)*3 > len(plain) || resp.Header.Get("Vary") == "" {
			t.Errorf("%s: %v, %d bytes of %d", name, resp.Header, len(b), len(plain))
		}
		in := must.Get(coding.NewReader(bytes.NewReader(b)))
		if b, err = io.ReadAll(in); err != nil || !bytes.Equal(b, plain) {
			t.Errorf("%s: %v", b, err)
		}
		r.URL.RawQuery = "after=" + d.Journal.Head().String()
		if resp, _ := d.do(r); resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("an empty list of changes has the coding %v", resp.Header)
		}
	}
}
