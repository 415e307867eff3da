package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// A site moves to another host: with its state, every output follows, a hook is told that any page may have changed, and a canonical
// URL at the former address counts as the page itself.
func TestMovedSite(t *testing.T) {
	d := newDesk(t, "b.html", "gone.html")
	const own = `<link rel="canonical" href="https://example.org/a.html"><p>The page a`
	d.write("a.html", own)
	t.Setenv("STATE_DIRECTORY", d.path("lib"))
	must.OK(t, os.WriteFile(d.path("hook"), []byte("#!/bin/sh\ncat >/dev/null\necho $PARLEY_HOOK_KIND $PARLEY_HOOK_BASE >>"+d.path("hooked")+"\n"), 0o755))
	options := []string{"--out", d.path("public/robots.rdf"), "--sitemap", d.path("public/sitemap.xml"), "--atom", d.path("public/news.atom"),
		"--nginx-include", d.path("gone.conf"), "--on-change", d.path("hook")}
	d.run(0, options...)
	must.OK(t, os.Remove(d.path("public/gone.html")))
	d.run(0, options...)
	d.run(0, options...)
	d.has("gone.conf", `location = "/gone.html" { return 410; }`)
	d.has("hooked", "batch https://example.org/")
	before := d.path("public/robots.rdf")
	dates := modified(t, before)

	moved := append([]string{"--base", "https://www.example.net", "--moved-from", "https://Example.org"}, options...)
	old, next := d.path("lib/example.org.db"), d.path("lib/www.example.net.db")
	if _, said := d.run(1, moved...); !strings.Contains(said, "mv "+old+" "+next) {
		t.Errorf("without a state of the new host it says %q", said)
	}
	must.OK(t, os.Rename(old, next))
	for range 2 {
		if out, said := d.run(0, moved...); out+said != "" {
			t.Errorf("it prints %q, %q", out, said)
		}
		d.has("public/robots.rdf", `<dcterms:replaces rdf:resource="https://example.org/"/>`)
		d.has("public/sitemap.xml", "<loc>https://www.example.net/a.html</loc>")
		d.has("public/sitemap.xml", "<loc>https://www.example.net/b.html</loc>")
		d.has("public/news.atom", `href="https://www.example.net/b.html"`)
		if now := modified(t, before); now != dates {
			t.Errorf("dates are %s, were %s", now, dates)
		}
	}
	hooked, err := os.ReadFile(d.path("hooked"))
	if err != nil || strings.Count(string(hooked), "gap https://www.example.net/") != 1 {
		t.Errorf("the hook was told %q, %v", hooked, err)
	}
	var many []string
	for i := range 17 {
		many = append(many, "--moved-from", fmt.Sprintf("https://old-%d.example.net", i))
	}
	if _, said := d.run(2, append(append([]string{"--base", "https://new.example.net"}, many...), options...)...); !strings.Contains(said, "a manifest names at most 16") {
		t.Errorf("17 former addresses: %q", said)
	}
	d.write("a.html", own+", edited")
	d.run(0, moved...)
	d.has("public/sitemap.xml", "<loc>https://www.example.net/a.html</loc>")

	for _, wrong := range []string{"https://www.example.net", "https://example.org/docs/", "example.org", "https://bücher.example"} {
		if _, said := d.run(2, append([]string{"--base", "https://www.example.net", "--moved-from", wrong}, options...)...); !strings.Contains(said, "--moved-from") {
			t.Errorf("--moved-from %s: %q", wrong, said)
		}
	}
}

// modified returns the dates of a manifest's items, in order.
func modified(t *testing.T, file string) (dates string) {
	t.Helper()
	b := must.Get(os.ReadFile(file))
	_, items, _ := strings.Cut(string(b), "<item ")
	for line := range strings.Lines(items) {
		if strings.Contains(line, "<dc:date>") {
			dates += strings.TrimSpace(line)
		}
	}
	return dates
}
