package harvest_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
)

func cookieFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cookies.txt")
	must.Write(t, name, text)
	return name
}

// Each cookie goes to its own host, path and scheme only, until it expires.
func TestCookiesAreForTheirOwnPages(t *testing.T) {
	list, err := harvest.ReadCookies(cookieFile(t, `# Netscape HTTP Cookie File
example.org	FALSE	/	FALSE	0	one	1

#HttpOnly_.example.org	TRUE	/members	TRUE	0	two	2
Example.com	TRUE	/a/	FALSE	2000000000	three	3 and more
example.com	TRUE	/	FALSE	1000000000	old	4
org	TRUE	/	FALSE	0	all	5
127.0.0.1	TRUE	/	FALSE	0	address	6
# done
`))
	if err != nil || len(list) != 6 {
		t.Fatalf("%d cookies, %v", len(list), err)
	}
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for url, want := range map[string]string{
		"https://example.org/":              "one=1",
		"https://example.org/members":       "two=2; one=1", // the longer path first
		"https://example.org:8443/members/": "two=2; one=1",
		"https://www.example.org/members/x": "two=2",
		"http://www.example.org/members/x":  "",
		"https://example.org/membership":    "one=1",
		"https://badexample.org/":           "",
		"https://example.org.evil.example/": "",
		"http://example.com/a/b?c":          "three=3 and more",
		"http://sub.EXAMPLE.com./a/":        "three=3 and more",
		"http://example.com/a":              "",
		"http://example.com/":               "", // expired
		"http://org/":                       "all=5",
		"http://127.0.0.1:8080/":            "address=6",
		"http://1.127.0.0.1/":               "",
	} {
		if got := harvest.CookiesFor(list, url, now); got != want {
			t.Errorf("%s gets %q, want %q", url, got, want)
		}
	}
	if got := harvest.CookiesFor(list, "http://example.com/a/", now.AddDate(10, 0, 0)); got != "" {
		t.Errorf("an expired cookie is sent: %q", got)
	}
}

// Cookies are sent with tasks for pages, by each protocol; with nothing else, and they are in no request that is archived.
func TestCookiesAreSentForPagesOnly(t *testing.T) {
	list := must.Get(harvest.ReadCookies(cookieFile(t, "127.0.0.1\tFALSE\t/in\tFALSE\t0\tkey\ts3cr3t\n")))
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.1 with TLS", "HTTP/2.0"} {
		site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s cookie %q", r.Proto, r.Header.Get("Cookie"))
		}))
		h := &harvest.Harvester{Options: harvest.Options{Private: true, Wait: -1, Cookies: list}}
		if proto == "HTTP/1.1" {
			site.Start()
		} else {
			site.EnableHTTP2 = proto == "HTTP/2.0"
			site.StartTLS()
			h.Options.TLS = &tls.Config{RootCAs: site.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
		}
		defer site.Close()
		defer h.Close()
		b := &harvest.Batch{Sites: []harvest.SiteBatch{{Site: 1, Origin: site.URL, Tasks: []harvest.Task{
			{Page: 1, URL: site.URL + "/in/a"}, {Page: 2, URL: site.URL + "/out"}, {Source: 1, URL: site.URL + "/in/map.xml"}}}}}
		answers := harvestAll(t, h, b)
		protocol, _, _ := strings.Cut(proto, " ")
		for path, cookie := range map[string]string{"/in/a": "key=s3cr3t", "/out": "", "/in/map.xml": ""} {
			a := answers[site.URL+path]
			if want := fmt.Sprintf("%s cookie %q", protocol, cookie); string(a.Body) != want || a.Authorized != (cookie != "") || strings.Contains(string(a.Request), "s3cr3t") {
				t.Errorf("%s, %s: %q, want %q; authorized %v, %v; request %q", proto, path, a.Body, want, a.Authorized, a.Err, a.Request)
			}
		}
		resp := must.Get((&http.Client{Transport: h.Transport(site.URL)}).Get(site.URL + "/in/a"))
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if strings.Contains(string(body), "s3cr3t") {
			t.Errorf("%s: a Transport sends cookies: %s", proto, body)
		}
	}
}

// An error says in which line what is expected, and repeats no secret.
func TestWrongCookies(t *testing.T) {
	for line, want := range map[string]string{
		"h FALSE / FALSE 0 a secret":               ":2: 1 fields, want 7",
		"h\tmaybe\t/\tFALSE\t0\ta\tsecret":         ":2: the second field is neither TRUE nor FALSE",
		"h\tFALSE\t/\t0\t0\ta\tsecret":             ":2: the fourth field",
		"h\tFALSE\tx\tFALSE\t0\ta\tsecret":         ":2: the third field is not a path",
		"h\tFALSE\t/\tFALSE\tnever\ta\tsecret":     ":2: the fifth field is not a time",
		"http://h\tFALSE\t/\tFALSE\t0\ta\tsecret":  ":2: the first field is not a host name",
		"h\tFALSE\t/\tFALSE\t0\ta\tsecret; b=more": ":2: the name or the value",
		"h\tFALSE\t/\tFALSE\t0\t\tsecret":          ":2: the name or the value",
		"h\tFALSE\t/\tFALSE\t0\ta\tsecret\x01":     ":2: the name or the value",
		"# nothing":                                "has no cookies",
	} {
		name := cookieFile(t, "# a comment\n"+line+"\n")
		if list, err := harvest.ReadCookies(name); err == nil || !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v, want an error with %q", line, list, err, want)
		}
	}
	if _, err := harvest.ReadCookies(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that does not exist has cookies")
	}
}

func TestClientCertNeedsAllThree(t *testing.T) {
	for _, c := range [][3]string{{"a.pem", "", "h"}, {"", "a.pem", "h"}, {"a.pem", "a.pem", ""}} {
		if _, err := harvest.ClientCert(c[0], c[1], c[2]); err == nil || !strings.Contains(err.Error(), "all three") {
			t.Errorf("%q: %v", c, err)
		}
	}
	if _, err := harvest.ClientCert("a.pem", "a.pem", "https://h/"); err == nil || !strings.Contains(err.Error(), "without scheme") {
		t.Errorf("a URL as host: %v", err)
	}
	for _, host := range []string{"::1", "[::1]", "127.0.0.1"} {
		if _, err := harvest.ClientCert("none.pem", "none.pem", host); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the address %s as host: %v", host, err)
		}
	}
	h := &harvest.Harvester{Options: harvest.Options{Cert: new(tls.Certificate), CertHost: "[::1]"}}
	if !h.Authorizes("https://[::1]:8443/a.html") || h.Authorizes("https://[::2]:8443/a.html") || h.Authorizes("http://[::1]/") {
		t.Error("a certificate for [::1] is not sent to this address, or to others")
	}
}
