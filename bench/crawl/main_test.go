package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// smallSite has 30 pages, two more that only link to each other, and a broken link.
func smallSite(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, page string) {
		t.Helper()
		name = filepath.Join(dir, name)
		must.Write(t, name, "<!DOCTYPE html><title>a page</title>"+page)
	}
	front := `<a href="none.html">broken</a> <img src="none.png">`
	for i := range 28 {
		front += fmt.Sprintf(` <a href="ring/%d.html">%d</a>`, i, i)
		write(fmt.Sprintf("ring/%d.html", i), fmt.Sprintf(`<a href="%d.html#top">on</a> <a href="../with%%20space/">aside</a>`, (i+1)%28))
	}
	write("index.html", front)
	write("with space/index.html", `<a href="/">back</a>`)
	write("lost/a.html", `<a href="b.html">b</a>`)
	write("lost/b.html", `<a href="a.html">a</a> <a href="/">home</a>`)
	must.Write(t, filepath.Join(dir, "robots.txt"), "User-agent: *\nDisallow: /\n")
	return dir
}

func needs(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		machine.Tool(t, tool)
	}
}

// measured runs the program, and wants all of these texts in its output.
func measured(t *testing.T, args []string, want ...string) {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), args, &out); err != nil && !errors.Is(err, goal.ErrMissed) {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(out.String()) {
			t.Errorf("%q does not print %q but\n%s", args, w, out.String())
		}
	}
}

func TestReferencesFetchAllLinkedPages(t *testing.T) {
	needs(t, "nginx")
	measured(t, []string{"-rounds", "2", "-only", "net/http", smallSite(t)},
		`32 pages, 30 of them reachable within 2 steps`,
		`tokenizer, 1 connection .* 30 +1 x 404`,
		`tokenizer, 8 connections .* 30 +1 x 404`)
	measured(t, []string{"-rounds", "1", "-mode", "manifest", "-only", "list", smallSite(t)},
		`names 32 pages; no links lead to 2 of them`,
		`a list, 1 connection .* 32 +none`, `a list, 8 connections .* 256 +none`)
}

func TestWget2FetchesSamePages(t *testing.T) {
	needs(t, "nginx", "wget2")
	measured(t, []string{"-rounds", "1", "-only", "wget2", smallSite(t)}, `wget2, 8 connections .* 30 +1 x 404`)
	measured(t, []string{"-mode", "recrawl", "-changed", "0.1", "-only", "wget2", smallSite(t)},
		`3 pages changed`, `wget2 -N, 8 connections +31 +3 +1 x 404, 27 x 304`)
}

func TestParleyFetchesSamePages(t *testing.T) {
	needs(t, "nginx")
	measured(t, []string{"-rounds", "1", "-only", "links only", smallSite(t)}, `Parley, links only .* 30 `)
	measured(t, []string{"-rounds", "1", "-mode", "manifest", "-only", "Parley", smallSite(t)},
		`Parley, manifest .* 32 `, `Parley, manifests of 8 sites .* 256 `, `a chain of 200 pages, by its manifest: 200 pages, in batches of`)
	measured(t, []string{"-mode", "recrawl", "-changed", "0.1", "-only", "manifest", smallSite(t)},
		`3 pages changed`, `Parley, manifest .* 3 `, `1\.0000  <= 1\.05 +Parley, manifest: requests`)
}

// Missing, unwanted and repeated requests are reported.
func TestWrongRequestsAreCounted(t *testing.T) {
	needs(t, "nginx")
	dir := t.TempDir()
	root := must.Get(docroot.Copy(smallSite(t), filepath.Join(dir, "docroot")))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := must.Get(nginx.Start(ctx, dir, nginx.Site{Root: root.Path}))
	defer n.Close()
	s := &site{Docroot: root, bases: n.Bases}
	b := &bench{dir: dir, limit: 1e11, out: new(strings.Builder)}
	r := b.list(1, []string{"/", "/index.html", "/ring/1.html", "/ring/2.html", "/none.html"})
	o := must.Get(b.once(ctx, r, s, n, []string{"/", "/ring/1.html", "/with%20space/"}, dir))
	if got := fmt.Sprint(o.pages, o.missing, o.extra, o.again, o.statuses); got != "3 [/with%20space/] [/ring/2.html] [/index.html] map[200:4 404:1]" {
		t.Errorf("counted %s", got)
	}
	b.complain(r, o)
	if b.wrong != 1 {
		t.Errorf("%d wrong runs", b.wrong)
	}
}
