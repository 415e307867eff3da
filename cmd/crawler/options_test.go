package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/must"
)

// Every field that an error of crawl.Options can name has an option that is named after it.
func TestFieldsInErrorsAreOptions(t *testing.T) {
	source := must.Get(os.ReadFile("../../client/crawl/options_open.go"))
	found := regexp.MustCompile(`(?:field\(|bad\(|number\{|choose\(|name, wait = )"(\w+)"`).FindAllSubmatch(source, -1)
	if len(found) < 40 {
		t.Fatalf("%d fields are named", len(found))
	}
	flags := crawlFlags(&crawl.Options{}, &listeners{})
	for _, m := range found {
		name := optionOf(string(m[1]))
		if m := string(m[1]); m != "Start" && !slices.ContainsFunc(flags, func(f command.Flag) bool { return "--"+f.Name == name }) {
			t.Errorf("%s: there is no option %s", m, name)
		}
	}
}

// A wrong value is reported in the notation of the command line, before anything is stored.
func TestWrongValuesNameTheirOption(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"--batch 0":                   "--batch 0: want 1 or more",
		"--max-depth-dynamic -1":      "--max-depth-dynamic -1: want 1 or more",
		"--per-connection 0":          "--per-connection 0: want 1 or more",
		"--trap-share NaN":            "--trap-share NaN: want a share between 0 and 1",
		"--changed words":             "--changed words: want bytes, significant or text",
		"--strategy opic --no-links":  "--strategy opic needs links: remove --no-links and --no-parse",
		"--told-budget 0":             "--told-budget 0: want a multiple of the budget, such as 1 or 0.5, or -1 for no limit; --frugal counts such visits against the budget itself",
		"--stop-value .5":             "--stop-value needs --policy thesis: only there the profit of a page is between 0 and 1",
		"--objective fresh=-1":        `--objective "fresh=-1": want fresh, harmonic or age, and a number, such as fresh=1`,
		"--blocked-ip x":              "--blocked-ip x: want an address such as 192.0.2.1 or a prefix such as 192.0.2.0/24",
		"--per-address 5/m":           "--per-address 5/m: want 0.0001 to 1000 requests a second, and optionally 1 to 1000 connections, such as 5/s or 0.5/s,2",
		"--pagerank-jump 1":           "--pagerank-jump 1: want a number between 0 and 1",
		"--max-failed-lookups 0":      "--max-failed-lookups 0: want a share above 0 and up to 1",
		"--dates-from yesterday":      "--dates-from yesterday: want a date such as 1993 or 1995-06-30",
		"--subscriber-weight -1":      "--subscriber-weight -1: want 0 or more",
		"--subscriber-weight Inf":     "--subscriber-weight +Inf: want 0 or more",
		"--subscribers 5":             "--subscribers \"5\": want a number and the URL of a feed, such as \"120 https://www.example.org/feed.xml\"",
		"--allow-private=false":       "127.0.0.1 is not on the public Internet: add --allow-private if the machine is yours",
		"http://a.example/":           "a.example is another machine: add --contact MAIL or URL, so that its operators can reach you",
		"--domain a.example --wait 1": "want a duration",
	} {
		all := append(strings.Fields("crawl http://127.0.0.1:9/ --allow-private --wait-big 10ms --into "+dir), strings.Fields(args)...)
		ends(t, 2, want, all...)
	}
	sites := filepath.Join(t.TempDir(), "sites.txt")
	must.OK(t, os.WriteFile(sites, []byte("# ours\n\nhttp://bücher.example/ depth=1 # the front\nhttp://127.0.0.1:9/docs/ page=9\n"), 0o666))
	for args, want := range map[string]string{
		"--sites " + sites:                             sites + `:4: http://127.0.0.1:9/docs/ page=9: "page=9" after a URL: want depth=N, N links from a start page at most, or pages=N, N URLs at most`,
		"http://127.0.0.1:9/ depth=x":                  `http://127.0.0.1:9/ depth=x: "depth=x" after a URL`,
		"depth=1 http://127.0.0.1:9/":                  "depth=1: want a URL such as https://www.example.org/",
		"http://[::1]/ pages=1 http://[::1]/a pages=2": "http://[::1]/a pages=2: http://[::1]/ in the same directory has pages=1",
	} {
		ends(t, 2, want, append(strings.Fields("crawl --allow-private --into "+dir), strings.Fields(args)...)...)
	}
	code, _, said := program(t.Context(), "crawl", "--into", dir)
	if code != 2 || !strings.Contains(said, dir+" is empty: give a URL to begin with in an argument, or in --sites FILE") {
		t.Errorf("no URL: exit code %d: %s", code, said)
	}
}
