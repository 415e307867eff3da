package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A desk is the page of a crawler, as a person or a program sees it.
type desk struct {
	t    *testing.T
	base string // "http://127.0.0.1:1234"
}

func openDesk(t *testing.T) *desk {
	return &desk{t, "http://" + front.FreeAddress()}
}

func (d *desk) address() string { return strings.TrimPrefix(d.base, "http://") }

// do sends a request with pairs of header fields, and returns the status and the body; 0 while nobody answers.
func (d *desk) do(method, path, body string, header ...string) (int, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.base+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Error(err)
	}
	return resp.StatusCode, string(b)
}

func (d *desk) page() string {
	d.t.Helper()
	_, text := d.do("GET", "/", "", "Accept", "text/html")
	return text
}

// press sends a form of the page, as a browser does.
func (d *desk) press(task string, fields ...string) (int, string) {
	d.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return d.do("POST", "/do/"+task, form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", d.base, "Accept", "text/html")
}

func (d *desk) shows(text string) {
	d.t.Helper()
	until(d.t, fmt.Sprintf("the page shows %q", text), func() bool { return strings.Contains(d.page(), text) })
}

// garbage is a site whose answers are not HTTP, and contain markup.
func garbage(t *testing.T) (origin string) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "<script>alert(1)</script>"+strings.Repeat("x", 10_000)+"\r\n\r\n")
			c.Close()
		}
	}()
	return "http://" + ln.Addr().String()
}

// Somebody who runs a crawler looks at its page: the facts are there without a script, what sites say is escaped and cut, and the
// forms do what the commands do.
func TestCrawlPage(t *testing.T) {
	files := map[string]string{"index.html": "<title>Home</title>home <a href='/" + strings.Repeat("y", 3000) + ".html'>long</a>", "a.html": "<title>A</title>a"}
	site, bad, d := sitetest.NewSite(t, files), garbage(t), openDesk(t)
	dir := filepath.Join(t.TempDir(), "crawl")
	r := begin(t, dir, "run", site.Base, bad+"/", "--admin", d.address(), "--hurry", "50ms")
	until(t, "the site is stored", func() bool {
		code, _, _ := program(t.Context(), "get", site.Base+"a.html", "--into", dir)
		return code == 0
	})
	d.shows("Nothing needs a person.")
	d.shows("<bdi>" + strings.TrimSuffix(site.Base, "/") + "</bdi>")
	d.shows("<bdi>" + bad + "</bdi><br><small><span class=\"bad\">fails</span>: ")
	until(t, "the site is followed", func() bool { return strings.Contains(r.status(), "1 site followed") })
	site.Write("a.html", "<title>A</title>changed")
	site.Publish()
	d.shows(`data-label="Told by">stream</td>`)
	d.shows(`<th scope="row">stream</th><td class="n" data-label="Changes">1</td>`)
	d.shows(` expected</small></span></td><td class="n" data-label="Refused or failing">`)
	if page := d.page(); strings.Contains(page, "<script>alert") || len(page) > 50_000 {
		t.Errorf("%d bytes, with hostile text: %s", len(page), page)
	}
	if code, text := d.do("GET", "/why?url="+url.QueryEscape(site.Base+"a.html"), "", "Accept", "text/html"); code != 200 || !strings.Contains(text, "It is held") || !strings.Contains(text, "robots.txt allows it") {
		t.Errorf("why: %d: %s", code, text)
	}
	if code, text := d.do("GET", "/why?url="+url.QueryEscape(`http://x/"><script>alert(1)</script>`+strings.Repeat("z", 100_000)), "", "Accept", "text/html"); code != 400 || strings.Contains(text, "<script>alert") || len(text) > 10_000 {
		t.Errorf("why of a hostile URL: %d: %d bytes: %.3000s", code, len(text), text)
	}

	if code, text := d.press("pause", "site", site.Base); code != 200 || !strings.Contains(text, "is paused") {
		t.Errorf("pause: %d: %s", code, text)
	}
	d.shows("Resume all")
	if out := r.status(); !strings.Contains(out, " is paused") {
		t.Errorf("status: %s", out)
	}
	if code, text := d.press("pause", "site", "exmaple.org"); code != 200 || !strings.Contains(text, "exmaple.org: no site of this crawl has that name yet; it will be paused when found.") {
		t.Errorf("pause a name of no site: %d: %s", code, text)
	}
	if code, text := d.press("resume", "all", "yes"); code != 200 || !strings.Contains(text, "no site is paused") {
		t.Errorf("resume: %d: %s", code, text)
	}
	if code, text := d.press("rate", "budget", "1234", "wait", "", "max-rate", ""); code != 200 || !strings.Contains(text, "budget=1234") {
		t.Errorf("rate: %d: %s", code, text)
	}
	d.shows(`name="budget" value="1234"`)
	if code, text := d.press("scope", "reject", "/b/\r\n/<script>/\r\n"); code != 200 || !strings.Contains(text, "reject=/b/ reject=/&lt;script&gt;/") {
		t.Errorf("scope: %d: %s", code, text)
	}
	d.shows("/b/\n/&lt;script&gt;/</textarea>")
	if code, text := d.press("scope"); code != 200 || !strings.Contains(text, "nothing") {
		t.Errorf("scope: %d: %s", code, text)
	}
	if code, text := d.press("add", "url", site.Base+"a.html ftp://x/"); code != 200 || !strings.Contains(text, "Not fetched: 1 of 2; the last, ftp://x/,") {
		t.Errorf("add: %d: %s", code, text)
	}
	for _, x := range []struct {
		task   string
		fields []string
		want   string
	}{
		{"pause", nil, "name a site"}, {"pause", []string{"site", "a/b"}, "want an origin"}, {"rate", []string{"budget", "<b>"}, "&lt;b&gt;"}, {"rate", []string{"wait", "10s"}, "neither may be 0"},
		{"accept", []string{"seen", "1 " + site.Base}, "check the box"}, {"accept", []string{"seen", "1 http://x", "sure", "yes"}, "unknown site"},
		{"accept", []string{"seen", "-1 " + strings.TrimSuffix(site.Base, "/"), "sure", "yes"}, "look again"}, {"fly", nil, "no task"},
	} {
		if code, text := d.press(x.task, x.fields...); code != 409 || !strings.Contains(text, x.want) {
			t.Errorf("%s %q: %d: %s", x.task, x.fields, code, text)
		}
	}
	// Pages of other sites can do nothing.
	for _, header := range [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, nil} {
		for _, path := range []string{"/do/pause", "/api/pause"} {
			if code, _ := d.do("POST", path, "all=yes", header...); code != 403 {
				t.Errorf("a POST to %s with %q: %d", path, header, code)
			}
		}
	}
	if out := r.status(); strings.Contains(out, "paused") {
		t.Errorf("status: %s", out)
	}
	if code, text := d.do("GET", "/metrics", ""); code != 200 || !strings.Contains(text, "parley_crawler_sites 2") {
		t.Errorf("metrics: %d: %s", code, text)
	}

	// The page follows the crawl, and its stream ends with the crawler.
	resp := must.Get(http.Get(d.base + "/events"))
	defer resp.Body.Close()
	var sections map[string]string
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for sections == nil && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			json.Unmarshal([]byte(data), &sections)
		}
	}
	if !strings.Contains(sections["crawl"], "Pages stored") {
		t.Errorf("the first event has %v", sections)
	}
	r.finish()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// A site whose deletions wait for a person is among what needs one, even if sixty sites have more requests; and a person accepts them.
func TestNeedsOfAllSites(t *testing.T) {
	dir, d := filepath.Join(t.TempDir(), "crawl"), openDesk(t)
	col := must.Get(collection.Open(dir, &collection.Options{Contents: collection.WARC}))
	commit := func(c collection.Commit) collection.Committed {
		t.Helper()
		return must.Get(col.Commit(&c))
	}
	const origin = "http://127.0.2.1:9"
	var finds []collection.Find
	for i := range 60 {
		finds = append(finds, collection.Find{URL: fmt.Sprintf("http://127.0.1.%d:9/", i+1), By: collection.ByLink})
	}
	pages, began := commit(collection.Commit{Finds: finds}).New, time.Now().Add(-time.Hour)
	for i := range 5 {
		var visits []collection.Visit
		for _, p := range pages {
			visits = append(visits, collection.Visit{Page: p.ID, Asked: began.Add(time.Duration(i) * time.Second), Status: http.StatusForbidden})
		}
		commit(collection.Commit{Visits: visits})
	}
	manifest := commit(collection.Commit{Sources: []collection.Source{{Kind: collection.ManifestRDF, URL: origin + "/robots.rdf"}}}).Sources[0]
	var all []protocol.Change
	for i := range 60 {
		all = append(all, protocol.Change{Op: protocol.Create, Item: protocol.Item{URL: fmt.Sprintf("%s/%d.html", origin, i), Length: -1}})
	}
	for i, changes := range [][]protocol.Change{all, all[50:]} {
		step := client.Step{Changes: changes, Cursor: protocol.Cursor{Epoch: "epoch", Seq: uint64(i + 1)}, Door: client.Manifest, Reset: true, Whole: true}
		must.Get(col.Apply(manifest.ID, step, collection.ByManifest, collection.ApplyOptions{}))
	}
	must.OK(t, col.Close())

	begin(t, dir, "run", pages[0].URL, "--admin", d.address())
	d.shows("<h3><bdi>" + origin + "</bdi></h3><p>Its manifest has dropped 50 pages")
	if page := d.page(); strings.Contains(page, `<th scope="row"><bdi>`+origin) || !strings.Contains(page, "11 more are not listed") {
		t.Errorf("the site is among those with the most requests: %s", page)
	}
	if code, text := d.press("accept", "seen", "49 "+origin, "sure", "yes"); code != 409 || !strings.Contains(text, "it is about 50 pages now") {
		t.Errorf("accept more than was seen: %d: %s", code, text)
	}
	if code, text := d.press("accept", "seen", "50 "+origin, "sure", "yes"); code != 200 || !strings.Contains(text, "50 pages of "+origin+" are now gone") {
		t.Errorf("accept: %d: %s", code, text)
	}
	if page := d.page(); !strings.Contains(page, "Nothing needs a person.") {
		t.Errorf("after that: %s", page)
	}
}

// A program on another machine steers a crawler with a token: the same requests as on the socket, and nothing that reads or writes files.
func TestAPIOfTheAdminAddress(t *testing.T) {
	site, d := sitetest.NewSite(t, map[string]string{"index.html": "<title>Home</title>home", "a.html": "a"}), openDesk(t)
	dir, tokens := filepath.Join(t.TempDir(), "crawl"), filepath.Join(t.TempDir(), "tokens")
	const token = "0123456789abcdef0123"
	must.Write(t, tokens, "# mine\n"+token+"\n")
	r := begin(t, dir, "run", site.Base, "--admin", d.address(), "--admin-token", tokens)
	as := []string{"Authorization", "Bearer " + token}
	until(t, "the site is stored", func() bool {
		code, text := d.do("GET", "/api/pages?state=held", "", as...)
		return code == 200 && strings.Count(text, "\n") == 2
	})
	until(t, "there are events", func() bool {
		_, text := d.do("GET", "/api/events", "", as...)
		return text != ""
	})
	for path, want := range map[string]string{"/api/status": `"running":true`, "/api/sites": `"told_by":"`, "/api/why?url=" + url.QueryEscape(site.Base): `"known":true`,
		"/api/events": `"op":"create"`, "/api/links?all=true": ""} {
		if code, text := d.do("GET", path, "", as...); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d: %s", path, code, text)
		}
		if code, _ := d.do("GET", path, ""); code != 401 {
			t.Errorf("%s without a token: %d", path, code)
		}
	}
	if code, _ := d.do("GET", "/api/status", "", "Authorization", "Bearer wrong"); code != 401 {
		t.Errorf("with a wrong token: %d", code)
	}
	for _, x := range []struct{ path, body, want string }{
		{"/api/pause", `["` + site.Base + `"]`, `"paused":["` + strings.TrimSuffix(site.Base, "/") + `"]`},
		{"/api/resume", `["all"]`, `{}`},
		{"/api/rate", `{"budget":"77"}`, `"rate":{"budget":"77"}`},
		{"/api/scope", `{"accept":["/docs/"]}`, `"accept":["/docs/"]`},
		{"/api/scope", `{"accept":["default"]}`, `"rate":{"budget":"77"}`},
		{"/api/add", `["` + site.Base + `a.html"]`, `"OK":true`},
		{"/api/pause", `["exmaple.org", "` + site.Base + `"]`, `"unknown":["exmaple.org"]`},
		{"/api/resume", `["all"]`, `{"rate":{"budget":"77"}`},
	} {
		if code, text := d.do("POST", x.path, x.body, as...); code != 200 || !strings.Contains(text, x.want) {
			t.Errorf("%s: %d: %s", x.path, code, text)
		}
	}
	for _, x := range []struct{ path, body, want string }{
		{"/api/pause", `"all"`, "for all sites"}, {"/api/pause", "null", "for all sites"}, {"/api/pause", "[]", "for all sites"}, {"/api/resume", "", "for all sites"},
		{"/api/resume", "null", "for all sites"}, {"/api/rate", `{"bugdet":"1"}`, "budget"}, {"/api/scope", `{`, "reject"},
	} {
		if code, text := d.do("POST", x.path, x.body, as...); code != 400 || !strings.Contains(text, `"detail"`) || !strings.Contains(text, x.want) {
			t.Errorf("a wrong body of %s, %s: %d: %s", x.path, x.body, code, text)
		}
	}
	for _, path := range []string{"/api/export", "/api/get", "/api/urls", "/api/index"} {
		if code, _ := d.do("GET", path, "", as...); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
	// A stream of events ends when the crawler is stopped.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", d.base+"/api/events?follow=true", nil)
	req.Header.Set(as[0], as[1])
	resp := must.Get(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	r.finish()
	io.Copy(io.Discard, resp.Body)
	if ctx.Err() != nil {
		t.Error("the stream of events does not end")
	}
	ends(t, 1, "--admin-token", append([]string{"run", site.Base, "--admin", d.address(), "--admin-token", filepath.Join(dir, "none")}, own(dir)...)...)
}
