package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/warc"
)

// archived returns all records below a directory, decoded.
func archived(t *testing.T, dir string) string {
	t.Helper()
	var all bytes.Buffer
	must.OK(t, warc.Each(dir, warc.Place{}, func(_ string, r *warc.Reader) error {
		for {
			rec, err := r.Next()
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			fmt.Fprintf(&all, "%s %s\n", rec.Type(), rec.URL())
			if _, err := io.Copy(&all, rec.Body); err != nil {
				return err
			}
		}
	}))
	return all.String()
}

// A club has pages for everybody, and pages for members, who have a cookie.
type club struct {
	*httptest.Server
	mu      sync.Mutex
	cookies map[string]string // by path
	news    string
}

func newClub(t *testing.T) *club {
	c := &club{cookies: map[string]string{}, news: "first news"}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *club) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cookie := r.Header.Get("Cookie")
	if cookie != "" || c.cookies[r.URL.Path] == "" {
		c.cookies[r.URL.Path] = cookie
	}
	w.Header().Set("Content-Type", "text/html")
	switch {
	case r.URL.Path == "/":
		io.WriteString(w, "<title>Club</title>welcome <a href=/news.html>news</a> <a href=/members/list.html>members</a>")
	case r.URL.Path == "/news.html":
		io.WriteString(w, "<title>News</title>"+c.news)
	case strings.HasPrefix(r.URL.Path, "/members/") && !strings.Contains(cookie, "session=s3cr3t"):
		http.Redirect(w, r, "/login.html", http.StatusFound)
	case r.URL.Path == "/login.html":
		io.WriteString(w, "<title>Log in</title>please log in")
	case r.URL.Path == "/members/list.html":
		io.WriteString(w, "<title>Members</title>Alice and Bob <a href=minutes.html>minutes</a>")
	case r.URL.Path == "/members/minutes.html":
		io.WriteString(w, "<title>Minutes</title>the club is broke")
	default:
		http.NotFound(w, r)
	}
}

// What was fetched with cookies is archived, and given to nobody: no event, export, index or file has anything of its site any more.
func TestPagesBehindALoginStayHere(t *testing.T) {
	site, tmp := newClub(t), t.TempDir()
	dir := filepath.Join(tmp, "crawl")
	host := strings.TrimPrefix(site.URL, "http://")
	host = host[:strings.IndexByte(host, ':')]
	jar := filepath.Join(tmp, "cookies.txt")
	must.OK(t, os.WriteFile(jar, fmt.Appendf(nil, "%[1]s\tFALSE\t/members\tFALSE\t0\tsession\ts3cr3t\n%[1]s\tFALSE\t/\tTRUE\t0\tsecure\t5678\nexample.org\tTRUE\t/\tFALSE\t0\tother\t9\n", host), 0o600))
	run := func(want int, args ...string) (out, said string) {
		t.Helper()
		code, out, said := program(t.Context(), args...)
		if code != want {
			t.Fatalf("crawler %q: exit code %d: %s", args, code, said)
		}
		return out, said
	}
	crawl := append([]string{"crawl", site.URL + "/", "--requests", "--again"}, own(dir)...)
	run(0, crawl...)
	before, _ := run(0, "events", "--into", dir)
	if !strings.Contains(before, "/news.html") || !strings.Contains(before, "/login.html") {
		t.Fatalf("events of the public pages: %s", before)
	}

	run(0, append(crawl, "--cookies", jar)...)
	site.mu.Lock()
	for path, want := range map[string]string{"/": "", "/news.html": "", "/robots.txt": "", "/members/list.html": "session=s3cr3t", "/members/minutes.html": "session=s3cr3t"} {
		if got := site.cookies[path]; got != want {
			t.Errorf("the cookies for %s are %q, want %q", path, got, want)
		}
	}
	site.news = "other news"
	site.mu.Unlock()
	if all := archived(t, filepath.Join(dir, "warc")); !strings.Contains(all, "the club is broke") || !strings.Contains(all, "GET /members/minutes.html") || strings.Contains(all, "s3cr3t") {
		t.Errorf("the archive has the cookie, or lacks the page or its request:\n%s", all)
	}
	// Without cookies again: the mark stays.
	run(0, crawl...)
	if out, _ := run(0, "events", "--into", dir, "--text", "plain"); strings.Contains(out, "/members/") || strings.Contains(out, "broke") || strings.Contains(out, "other news") {
		t.Errorf("events: %s", out)
	} else if strings.Contains(before, `"op":"delete"`) || !strings.Contains(out, `"op":"delete"`) {
		t.Errorf("subscribers are not told that /news.html is withdrawn: %s", out)
	}
	for _, page := range []string{"/members/minutes.html", "/news.html"} {
		if out, said := run(1, "get", site.URL+page, "--into", dir); out != "" || !strings.Contains(said, "not given to others") {
			t.Errorf("get %s: %q, %s", page, out, said)
		}
	}
	if out, said := run(0, "export", "--into", dir); out != "" || !strings.Contains(said, "a site is not exported") {
		t.Errorf("exported URLs: %s%s", out, said)
	}
	for i, all := range []string{"--all=false", "--all"} {
		out := filepath.Join(tmp, fmt.Sprint("out", i))
		if _, said := run(0, "export", "--into", dir, "--warc", out, all); !strings.Contains(said, "0 records written") {
			t.Errorf("export %s: %s", all, said)
		}
	}
	index := filepath.Join(tmp, "index")
	run(0, "index", "build", index, "--into", dir)
	if _, out, _ := program(t.Context(), "index", "search", index, "broke"); strings.Contains(out, "minutes") {
		t.Errorf("the index finds %s", out)
	}
	if out, _ := run(0, "why", site.URL+"/members/minutes.html", "--into", dir); !strings.Contains(out, "nothing of it is given to others") {
		t.Errorf("why: %s", out)
	}
	if out, _ := run(0, "status", dir); !strings.Contains(out, "withheld   1 of them") {
		t.Errorf("status: %s", out)
	}
	for _, args := range [][]string{{"--cookies", jar, "--store", "both"}, {"--store", "mirror"}} {
		if _, said := run(2, append(crawl, args...)...); !strings.Contains(said, "--store "+args[len(args)-1]+": want warc or none") {
			t.Errorf("%q: %s", args, said)
		}
	}
	if _, said := run(2, append(crawl, "--cookies", dir)...); !strings.Contains(said, "--cookies: ") {
		t.Errorf("a directory of cookies: %s", said)
	}
}

// A page behind a login may be a redirect to a URL that a site without one keeps secret: what is there stays here, too.
func TestRedirectsOfPagesBehindALogin(t *testing.T) {
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<title>File</title>at "+r.URL.Path)
	}))
	defer files.Close()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<a href=/members/minutes>minutes</a> <a href=/members/moved>moved</a> <a href=/old>old</a>")
		case r.URL.Path == "/old":
			http.Redirect(w, r, files.URL+"/new", http.StatusFound)
		case r.Header.Get("Cookie") != "" && r.URL.Path == "/members/minutes":
			http.Redirect(w, r, files.URL+"/minutes?signature=s3cr3t", http.StatusFound)
		case r.Header.Get("Cookie") != "" && r.URL.Path == "/members/moved":
			http.Redirect(w, r, files.URL+"/members/moved", http.StatusFound) // which gets the cookie, too
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	for at, want := range map[string]string{"/members": "/members/moved /new", "/members/minutes": "/new"} {
		tmp := t.TempDir()
		dir, jar := filepath.Join(tmp, "crawl"), filepath.Join(tmp, "cookies.txt")
		must.OK(t, os.WriteFile(jar, fmt.Appendf(nil, "127.0.0.1\tFALSE\t%s\tFALSE\t0\tsession\t1\n", at), 0o600))
		args := append([]string{"crawl", site.URL + "/", files.URL + "/new", "--cookies", jar}, own(dir)...)
		code, _, said := program(t.Context(), args...)
		if code != 0 || !strings.Contains(said, "redirect is not followed") || strings.Contains(said, "s3cr3t") {
			t.Fatalf("exit code %d: %s", code, said)
		}
		_, pages, _ := program(t.Context(), "pages", "--format", "csv", "--into", dir)
		_, exported, _ := program(t.Context(), "export", "--into", dir)
		if strings.Contains(pages+exported, "signature") {
			t.Errorf("the secret URL is stored or exported: %s%s", pages, exported)
		}
		for path := range strings.FieldsSeq(want) {
			if !strings.Contains(pages, files.URL+path) {
				t.Errorf("no page %s: %s", path, pages)
			}
		}
	}
}

// A host that wants a client certificate gets it, and its pages stay here like those behind a login.
func TestClientCertificate(t *testing.T) {
	var closed atomic.Bool
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case closed.Load() && r.URL.Path == "/sitemap.xml":
			io.WriteString(w, "<urlset><url><loc>https://"+r.Host+"/minutes.html</loc></url></urlset>")
			return
		case closed.Load() && r.URL.Path != "/robots.txt":
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<title>Inside</title>for those with a certificate")
	})
	site := httptest.NewUnstartedServer(pages)
	site.Config.ErrorLog = log.New(io.Discard, "", 0)
	site.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	site.StartTLS()
	defer site.Close()
	tmp := t.TempDir()
	key := must.Get(x509.MarshalPKCS8PrivateKey(site.TLS.Certificates[0].PrivateKey))
	certFile, keyFile := filepath.Join(tmp, "cert.pem"), filepath.Join(tmp, "key.pem") // those of the server will do
	for name, b := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: site.Certificate().Raw}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		must.OK(t, os.WriteFile(name, pem.EncodeToMemory(b), 0o600))
	}
	u := must.Get(url.Parse(site.URL))
	for host, want := range map[string]bool{u.Hostname(): true, "www.example.org": false} {
		dir := filepath.Join(tmp, host)
		args := append([]string{"crawl", site.URL + "/", "--patience", "1ns", "--ca", certFile, "--client-cert", certFile, "--client-key", keyFile, "--client-host", host}, own(dir)...)
		code, _, said := program(t.Context(), args...)
		if has := strings.Contains(archived(t, filepath.Join(dir, "warc")), "for those with a certificate"); has != want || (code == 0) != want {
			t.Errorf("with a certificate for %s: exit code %d, stored: %v: %s", host, code, has, said)
		}
		if code, out, said := program(t.Context(), "get", site.URL+"/", "--into", dir); code == 0 || want && !strings.Contains(said, "not given to others") {
			t.Errorf("get: exit code %d: %s%s", code, out, said)
		}
		if code, out, _ := program(t.Context(), "events", "--into", dir); code != 0 || out != "" {
			t.Errorf("events: exit code %d: %s", code, out)
		}
	}
	// What a sitemap lists is not for everybody either, also if no page was fetched.
	closed.Store(true)
	dir := filepath.Join(tmp, "closed")
	_, _, said := program(t.Context(), append([]string{"crawl", site.URL + "/", "--patience", "1ns", "--ca", certFile, "--client-cert", certFile, "--client-key", keyFile, "--client-host", u.Hostname()}, own(dir)...)...)
	_, known, _ := program(t.Context(), "pages", "--into", dir)
	if code, out, _ := program(t.Context(), "export", "--all", "--into", dir); code != 0 || out != "" || !strings.Contains(known, "/minutes.html") {
		t.Errorf("export of a site without fetched pages: exit code %d: %s; pages %s; %s", code, out, known, said)
	}
	for _, args := range []string{"--client-cert " + certFile, "--client-cert " + certFile + " --client-key " + tmp + " --client-host h"} {
		code, _, said := program(t.Context(), append(append([]string{"crawl", site.URL + "/"}, own(tmp)...), strings.Fields(args)...)...)
		if code != 2 || !strings.Contains(said, "--client-cert: ") {
			t.Errorf("%s: exit code %d: %s", args, code, said)
		}
	}
}
