package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyweb/parley/bench/internal/docroot"
	"github.com/parleyweb/parley/bench/internal/nginx"
	"github.com/parleyweb/parley/protocol"
)

// byManifest measures the whole crawl of a site with a manifest, and of hosts such sites at once.
func (b *bench) byManifest(ctx context.Context, s *site, n *nginx.Server) error {
	named, err := b.publish(ctx, s)
	if err != nil {
		return err
	}
	linked := map[string]bool{}
	for _, p := range s.Survey.Pages {
		linked[s.File(p)] = true
	}
	orphans := 0
	for _, p := range named {
		if !linked[s.File(p)] {
			orphans++
		}
	}
	fmt.Fprintf(b.out, "the manifest names %d pages; no links lead to %d of them\n", len(named), orphans)
	one, parley := b.list(1, named), b.parley("manifest", "none", "none", "--no-parse")
	if err := b.race(ctx, s, n, named, []*rival{one, parley}, []bound{{row: parley, peers: []*rival{one}, limit: 1.5}}); err != nil {
		return err
	}
	return b.byManifests(ctx, s, named)
}

// hosts is how many sites with manifests are crawled at once.
const hosts = 8

// byManifests measures the crawl of copies of a site, each at a host of its own, over one connection to each.
func (b *bench) byManifests(ctx context.Context, s *site, named []string) error {
	dir := filepath.Join(filepath.Dir(s.Path), "hosts")
	var roots []nginx.Site
	for i := range hosts {
		root, err := docroot.Copy(s.Path, filepath.Join(dir, fmt.Sprint(i), "docroot"))
		if err != nil {
			return err
		}
		roots = append(roots, nginx.Site{Root: root.Path})
	}
	n, err := nginx.Start(ctx, dir, roots...)
	if err != nil {
		return err
	}
	defer n.Close()
	for i, root := range roots {
		if _, err := b.publish(ctx, &site{Docroot: &docroot.Docroot{Path: root.Root}, bases: n.Bases[i : i+1]}); err != nil {
			return err
		}
	}
	all := &site{Docroot: s.Docroot, bases: n.Bases}
	list, parley := b.list(hosts, named), b.parley(fmt.Sprintf("manifests of %d sites", hosts), "none", "none", "--no-parse")
	return b.race(ctx, all, n, named, []*rival{list, parley}, []bound{{row: parley, peers: []*rival{list}, limit: 1.5}})
}

// publish writes the site's manifest into its docroot, and returns the pages that it names.
func (b *bench) publish(ctx context.Context, s *site) ([]string, error) {
	if err := b.build(ctx, "rdfgen"); err != nil {
		return nil, err
	}
	out := filepath.Join(s.Path, "robots.rdf")
	cmd := exec.CommandContext(ctx, b.program("rdfgen"), "--docroot", s.Path, "--base", s.bases[0], "--out", out,
		"--state", filepath.Join(filepath.Dir(s.Path), "site.db"))
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("rdfgen: %w\n%s", err, msg)
	}
	f, err := os.Open(out)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var pages []string
	for r := protocol.NewManifestReader(f, protocol.ManifestOptions{URL: s.bases[0] + "robots.rdf"}); ; {
		record, err := r.Next()
		if err == io.EOF {
			slices.Sort(pages)
			return pages, nil
		} else if err != nil {
			return nil, err
		}
		if u := record.Item.URL; u != "" {
			pages = append(pages, "/"+strings.TrimPrefix(u, s.bases[0]))
		}
	}
}

var batch = regexp.MustCompile(`msg="batch begun".* tasks=(\d+)`)

// chain crawls pages that each link to the next: by links each page takes a cycle, by a manifest all pages
// after the front page take one.
func (b *bench) chain(ctx context.Context) (err error) {
	const length = 200
	r := b.parley("a chain by its manifest", "none", "none", "--no-parse", "--log-level", "debug")
	if !b.wanted(r.name) {
		return nil
	}
	from, err := os.MkdirTemp(b.dir, "chain-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(from)) }()
	for i := range length {
		name, next := fmt.Sprintf("page-%03d.html", i), fmt.Sprintf("page-%03d.html", i+1)
		if i == 0 {
			name = "index.html"
		}
		link := fmt.Sprintf("<a href=%q>next</a>", next)
		if i+1 == length {
			link = "the end"
		}
		page := fmt.Sprintf("<!DOCTYPE html><title>%d of %d</title><p>%s</p>\n", i+1, length, link)
		if err := os.WriteFile(filepath.Join(from, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return b.visit(ctx, from, func(ctx context.Context, s *site, n *nginx.Server) error {
		named, err := b.publish(ctx, s)
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp(b.dir, "run-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o, err := b.once(ctx, r, s, n, named, dir)
		if err != nil {
			return err
		}
		b.complain(r, o)
		var batches []string
		for _, m := range batch.FindAllStringSubmatch(o.said, -1) {
			batches = append(batches, m[1])
		}
		fmt.Fprintf(b.out, "a chain of %d pages, by its manifest: %d pages, in batches of %s\n", length, o.pages, strings.Join(batches, " + "))
		if len(batches) > 3 { // one of robots.txt, one of the front page
			fmt.Fprintln(b.out, "  WRONG: want one cycle for all pages of the manifest")
			b.wrong++
		}
		return nil
	})
}
