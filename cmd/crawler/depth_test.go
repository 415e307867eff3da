package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// The limits of depth follow from a share of what visitors see, for pages of both kinds; with one that a person sets, that is refused. What
// config prints can be read again.
func TestDepthForAShareOfVisits(t *testing.T) {
	for args, want := range map[string]string{
		"--depth-for 0.9 --q 0.4":                         "2",
		"--depth-for .9 --q 0.6":                          "4",
		"--depth-for .9 --q C:0.6":                        "7",
		"--depth-for .9 --q A:.4 --profile mirror":        "5",
		"--depth-for .9 --q 0":                            "1",
		"--depth-for .9 --q .6 --max-depth 4":             "4",
		"--depth-for .9 --q .6 --max-depth 3":             "--depth-for 0.9 limits the depth to 4, and --max-depth to 3: remove one of them",
		"--depth-for .9 --q .6 --max-depth-dynamic 5":     "and --max-depth-dynamic to 5",
		"--depth-for .9 --q A:.6":                         "--depth-for 0.9: depth of model A with q = 0.6: no depth",
		"--depth-for .9":                                  "--depth-for 0.9: add --q",
		"--depth-for 90 --q .6":                           "--depth-for 90: want a share between 0 and 1",
		"--depth-for NaN --q .6":                          "--depth-for NaN: want a share",
		"--q .6":                                          "--q .6: add --depth-for",
		"--depth-for .9 --q 60%":                          "--q 60%: want a probability",
		"--depth-for .9 --q .6 --max-depth 4 --profile x": "--profile x: want",
	} {
		code, out, said := program(t.Context(), append([]string{"config", "--all"}, strings.Fields(args)...)...)
		if code == 0 {
			conf := filepath.Join(t.TempDir(), "crawler.conf")
			must.Write(t, conf, out)
			if code, again, said := program(t.Context(), "config", "--all", "--config", conf); code != 0 || again != out {
				t.Errorf("%s: what config prints cannot be read again: exit code %d: %s", args, code, said)
			}
			if out = strings.ReplaceAll(out, "\n# max-", "\nmax-"); !strings.Contains(out, "\nmax-depth "+want+"\n") || !strings.Contains(out, "\nmax-depth-dynamic "+want+"\n") {
				t.Errorf("%s: the limits are not %s", args, want)
			}
		} else if code != 2 || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d: %s", args, code, said)
		}
	}
}

// A crawl of a site without end keeps to the limit, as it would keep to --max-depth.
func TestCrawlToTheDepthOfVisitors(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" || strings.Contains(r.URL.Path, ".rdf") || strings.Contains(r.URL.Path, ".xml") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for i := range 4 {
			fmt.Fprintf(w, "<title>%s</title>%[1]s <a href=%[1]s%c%d/>on</a>", r.URL.Path, 'a'+strings.Count(r.URL.Path, "/"), i)
		}
	}))
	defer site.Close()
	pages := func(limits ...string) (list []string) {
		dir := filepath.Join(t.TempDir(), "crawl")
		args := append([]string{"crawl", site.URL + "/", "--into", dir, "--allow-private", "--wait", "0", "--trap-share", "1", "--max-pages", "500"}, limits...)
		succeeds(t, args...)
		_, out, _ := program(t.Context(), "pages", "--into", dir, "--format", "csv")
		for line := range strings.Lines(out) {
			list = append(list, strings.Join(strings.Split(line, ",")[:4], ",")) // URL, state, status, depth
		}
		slices.Sort(list)
		return list
	}
	got := pages("--depth-for", "0.9", "--q", "0.4")
	if want := pages("--max-depth", "2", "--max-depth-dynamic", "2"); len(got) < 20 || !slices.Equal(got, want) {
		t.Errorf("%d pages, and with the limit itself %d", len(got), len(want))
	}
	if deeper := pages(); len(deeper) <= len(got) {
		t.Errorf("%d pages without a limit, %d with one", len(deeper), len(got))
	}
}
