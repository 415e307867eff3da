package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// A profile sets defaults; what a person sets, wherever, wins; and config shows the result.
func TestProfilesSetDefaults(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "crawler.conf")
	must.Write(t, conf, "profile mirror\nstore both\n")
	for _, c := range []struct {
		args  string
		lines []string // of config --all
	}{
		{"", []string{"# store warc", "# requests false", "# requisites false", "# text-digest false", "# changed bytes", "# log-ext zip", "# profile PROFILE"}},
		{"--profile archive", []string{"profile archive", "requests true", "requisites true", "# store warc"}},
		{"--profile archive --requests=false", []string{"# requests false", "requisites true"}},
		{"--profile search", []string{"text-digest true", "changed text", "log-ext zip", "log-ext pdf", "# requisites false"}},
		{"--profile search --text-digest=false", []string{"# text-digest false", "changed text", "log-ext pdf"}},
		{"--profile search --log-ext zip", []string{"text-digest true", "log-ext zip"}},
		{"--profile mirror", []string{"store mirror", "requisites true", "log-ext none"}},
		{"--config " + conf, []string{"profile mirror", "store both", "requisites true"}},
	} {
		code, out, said := program(t.Context(), append([]string{"config", "--all"}, strings.Fields(c.args)...)...)
		lines := slices.Collect(strings.Lines(out))
		for _, want := range c.lines {
			if code != 0 || !slices.Contains(lines, want+"\n") {
				t.Errorf("%s: exit code %d, no line %q: %s%s", c.args, code, want, said, regexp.MustCompile(`(?m)^(# )?(store|requests|requisites|text-digest|changed|log-ext|profile) .*`).FindAllString(out, -1))
			}
		}
		if c.args == "--profile search --log-ext zip" && slices.Contains(lines, "log-ext pdf\n") {
			t.Errorf("%s: the profile adds to the list", c.args)
		}
	}
	// A copy has what its site offers, and ignores the profile of a file that it shares with crawls; other settings of theirs are not ignored.
	for text, want := range map[string]string{"profile mirror\nvia nothing\n": "via nothing: want stream", "profile mirror\nwait 1h\n": `unknown option "wait"`} {
		must.Write(t, conf, text)
		ends(t, 2, want, "follow", "http://127.0.0.1:9/", "--into", t.TempDir(), "--config", conf)
	}
	ends(t, 2, "--profile hope: want archive, search or mirror", "crawl", "http://127.0.0.1:9/", "--into", t.TempDir(), "--profile", "hope")
}

// With each profile a crawl fetches and stores what the profile is for; requisites are fetched below pages at the limit of depth.
func TestProfilesCrawl(t *testing.T) {
	files := map[string]string{"/": "<title>Home</title>home <img src=i.png><link rel=stylesheet href=/css/s.css><script src=j.js></script><a href=a.html>a</a> <a href=d.zip>d</a>",
		"/a.html": "<title>A</title>a <img src=k.png><a href=b.html>b</a>", "/b.html": "<title>B</title>b", "/i.png": "\x89PNG i", "/k.png": "\x89PNG k", "/css/s.css": "body{}", "/j.js": "1", "/d.zip": "PK"}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", map[string]string{".png": "image/png", ".css": "text/css", ".js": "text/javascript", ".zip": "application/zip"}[filepath.Ext(r.URL.Path)])
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "text/html")
		}
		io.WriteString(w, body)
	}))
	defer site.Close()
	for profile, want := range map[string]string{
		"archive": "/ /a.html /css/s.css /i.png /j.js /k.png",
		"search":  "/ /a.html",
		"mirror":  "/ /a.html /css/s.css /d.zip /i.png /j.js /k.png",
	} {
		dir := filepath.Join(t.TempDir(), profile)
		args := []string{"crawl", site.URL + "/", "depth=1", "--profile", profile, "--into", dir, "--allow-private", "--wait", "0"}
		succeeds(t, args...)
		code, out, said := program(t.Context(), "pages", "--state", "held", "--format", "csv", "--into", dir)
		var got []string
		for _, m := range regexp.MustCompile(`(?m)`+regexp.QuoteMeta(site.URL)+`([^,\s]*)`).FindAllStringSubmatch(out, -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: stored %v, want %s: exit code %d: %s", profile, got, want, code, said)
		}
		_, err := os.Stat(filepath.Join(dir, "mirror", "i.png"))
		if files, _ := filepath.Glob(filepath.Join(dir, "mirror", "*", "i.png")); (err == nil || len(files) > 0) != (profile == "mirror") {
			t.Errorf("%s: the mirror has the image: %v, %v", profile, err == nil, files)
		}
		if profile != "mirror" {
			if requests := strings.Contains(archived(t, filepath.Join(dir, "warc")), "request "+site.URL); requests != (profile == "archive") {
				t.Errorf("%s: requests are archived: %v", profile, requests)
			}
		}
	}
}
