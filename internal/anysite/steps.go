//go:build linux

package anysite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// step executes one step, and records it.
func (w *world) step(ctx context.Context, s Step) error {
	at := w.sites[s.Site]
	r := drawing(w.plan.Seed, fmt.Sprintf("does step%d", s.Number))
	x := record.Step{At: time.Now(), Kind: s.Kind, Target: at.base, Detail: s.Trigger}
	var err error
	x.Failure = s.Kind == "wrong-docroot" || s.Kind == "robots-lost" || s.Kind == "robots-empty" // the programs report it, with the remedy
	switch s.Kind {
	case "restart-crawler", "kill-crawler", "disk-full":
		x.Target, x.Failure = crawlerName, s.Kind == "disk-full"
		err = w.disturb(s, w.procs[crawlerName])
	case "restart-notifier", "kill-notifier":
		x.Target = "notifier-" + at.Name
		err = w.disturb(s, w.procs[x.Target])
	case "wrong-docroot":
		x.Target = "notifier-" + at.Name
		err = w.mislead(at, w.procs[x.Target], s.Pause)
	case "parts":
		x.URLs, err = []string{at.base}, w.cross(at)
	case "quiet":
		time.Sleep(300 * time.Millisecond)
	default:
		x.URLs, err = w.change(at, s.Kind, r)
	}
	x.Done = time.Now()
	w.mu.Lock()
	w.rec.Steps = append(w.rec.Steps, x)
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	w.cron(ctx, at)
	w.visitor.look()
	time.Sleep(time.Duration(s.Pause) * time.Millisecond)
	return nil
}

// change changes files of a site, or their protection.
func (w *world) change(s *site, kind string, r *rand.Rand) (urls []string, err error) {
	s.mu.Lock()
	paths := slices.Sorted(maps.Keys(s.files))
	s.mu.Unlock()
	paths = slices.DeleteFunc(paths, func(p string) bool { return s.files[p].Quirk == "ports" })
	var plain []string // pages that may be moved or deleted
	for _, p := range paths {
		if p != "index.html" && strings.HasSuffix(p, ".html") {
			plain = append(plain, p)
		}
	}
	edit := func(path string) error {
		s.mu.Lock()
		q := s.files[path]
		s.mu.Unlock()
		q.Version++
		urls = append(urls, s.url(path))
		return w.write(s, q)
	}
	link := func(from, to string) error { // so that a silent site shows new pages
		s.mu.Lock()
		home := s.files["index.html"]
		s.mu.Unlock()
		home.Links = slices.DeleteFunc(slices.Clone(home.Links), func(l string) bool { return l == from })
		if to != "" {
			home.Links = append(home.Links, to)
		}
		home.Version++
		urls = append(urls, s.base)
		return w.write(s, home)
	}
	remove := func(path string) error {
		s.mu.Lock()
		delete(s.files, path)
		s.mu.Unlock()
		w.wrote(s, path, nil)
		return os.Remove(filepath.Join(s.docroot, filepath.FromSlash(path)))
	}
	switch robots := filepath.Join(s.root, "robots.txt"); kind {
	case "edit":
		err = edit(pick(r, paths))
	case "edit-many":
		for range 2 + r.IntN(6) {
			err = cmp.Or(err, edit(pick(r, paths)))
		}
	case "trifles":
		for _, p := range paths {
			err = cmp.Or(err, edit(p))
		}
	case "create":
		path := pick(r, []string{"new.html", "news/new.html", "fresh/one.html"})
		q := Page{Path: path, Name: path, Age: 0, Version: 1}
		urls = append(urls, s.url(path))
		err = cmp.Or(w.write(s, q), link("", path))
	case "grow":
		for i := range 3 + r.IntN(8) {
			path := fmt.Sprintf("grown/%d.html", i)
			urls = append(urls, s.url(path))
			err = cmp.Or(err, w.write(s, Page{Path: path, Name: path, Version: 1}), link("", path))
		}
	case "move", "copy":
		from := pick(r, plain)
		to := strings.TrimSuffix(from, ".html") + "-too.html"
		s.mu.Lock()
		q := s.files[from]
		s.mu.Unlock()
		old := filepath.Join(s.docroot, filepath.FromSlash(from))
		if kind == "copy" {
			q.Path = to
			urls = append(urls, s.url(to))
			err = cmp.Or(w.write(s, q), link("", to))
			return urls, err
		}
		if b, err := os.ReadFile(old); err == nil {
			w.wrote(s, to, b)
			w.wrote(s, from, nil)
		}
		if err := os.Rename(old, filepath.Join(s.docroot, filepath.FromSlash(to))); err != nil {
			return nil, err
		}
		s.mu.Lock()
		delete(s.files, from)
		q.Path = to
		s.files[to] = q
		s.mu.Unlock()
		w.know(s.url(to))
		urls = append(urls, s.url(from), s.url(to))
		err = link(from, to)
	case "delete":
		path := pick(r, plain)
		urls = append(urls, s.url(path))
		err = cmp.Or(remove(path), link(path, ""))
	case "rebuild":
		for i, p := range paths {
			if i%2 == 0 {
				err = cmp.Or(err, edit(p))
				continue
			}
			s.mu.Lock()
			q := s.files[p]
			s.mu.Unlock()
			err = cmp.Or(err, w.write(s, q))
		}
	case "protect":
		s.mu.Lock()
		mode := pick(r, []string{"401", "403"})
		prefix := pick(r, []string{"news/", "private/"})
		s.guard[prefix] = mode
		s.mu.Unlock()
		for _, p := range paths {
			if strings.HasPrefix(p, prefix) {
				urls = append(urls, s.url(p))
			}
		}
		if w.nginx != nil && s == w.sites[0] {
			return urls, w.nginx.reload(w)
		}
	case "robots-lost":
		if err = os.Remove(robots); os.IsNotExist(err) {
			err = nil
		}
		urls = []string{s.origin() + "/robots.txt"}
	case "robots-empty":
		urls, err = []string{s.origin() + "/robots.txt"}, os.WriteFile(robots, nil, 0o644)
	case "robots-back":
		text := s.rules
		if text == "" {
			text = "User-agent: *\nDisallow:\n"
		}
		urls, err = []string{s.origin() + "/robots.txt"}, os.WriteFile(robots, []byte(text), 0o644)
	default:
		return nil, fmt.Errorf("unknown step %s", kind)
	}
	return urls, err
}

// disturb ends a program, in one way or another, and restarts it as a process supervisor does.
func (w *world) disturb(s Step, p *process) error {
	if p.done == nil { // it has not started
		return nil
	}
	switch {
	case s.Kind == "disk-full":
		w.fillDisk()
		p.wait(300 * time.Millisecond)
		w.emptyDisk()
		p.wait(2 * time.Second) // it may have met the full disk just now
		if p.running() {
			return nil // it survived
		}
	case s.Trigger == "":
		p.stop()
	case s.Trigger == "at once":
		p.kill()
	default:
		p.arm(s.Trigger)
		p.wait(500 * time.Millisecond)
		p.kill()
		p.arm("") // it may have ended before, and must not be killed again
	}
	<-p.done
	return w.again(p)
}

// again restarts a program that has ended, if it is meant to keep running or was cut short.
func (w *world) again(p *process) error {
	p.mu.Lock()
	cut := p.killed || p.cmd.ProcessState.ExitCode() != 0
	p.mu.Unlock()
	if p.kind == "crawl" && !cut {
		return nil
	}
	if err := p.start(); err != nil {
		return err
	}
	if p.kind == "notifier" {
		p.says("scanned", 3*time.Second)
	}
	return nil
}

// mislead makes a notifier watch a directory that is not the site's, as after a release that moved it, and
// corrects that later.
func (w *world) mislead(s *site, p *process, pause int) error {
	wrong := filepath.Join(w.dir, "wrong-"+s.Name)
	for _, q := range s.Pages {
		name := filepath.Join(wrong, filepath.FromSlash(q.Path))
		q.Version += 1000
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		b := q.Bytes(w.plan.Seed, s.Name)
		if err := os.WriteFile(name, b, 0o644); err != nil {
			return err
		}
		w.wrote(s, q.Path, b)
	}
	p.stop()
	right := slices.Clone(p.args)
	i := slices.Index(p.args, "--docroot") + 1
	p.args[i] = wrong
	if err := p.start(); err != nil {
		return err
	}
	p.says("scanned", 3*time.Second)
	time.Sleep(time.Duration(100+pause) * time.Millisecond)
	p.stop()
	p.args = right
	for _, q := range s.Pages { // record the files that it is about to watch
		s.mu.Lock()
		is, ok := s.files[q.Path]
		s.mu.Unlock()
		if ok {
			w.wrote(s, q.Path, is.Bytes(w.plan.Seed, s.Name))
		} else {
			w.wrote(s, q.Path, nil)
		}
	}
	if err := p.start(); err != nil {
		return err
	}
	p.says("scanned", 3*time.Second)
	return nil
}

// cross has a site's manifest in parts from now on, or in one file if it was in parts.
func (w *world) cross(s *site) error {
	p, i := cmp.Or(w.procs["notifier-"+s.Name], w.procs["rdfgen-"+s.Name]), 0
	p.stop()
	p.args = slices.Clone(p.args)
	if i = slices.Index(p.args, "--parts"); i < 0 {
		if !w.servesParts(s) {
			return w.again(p)
		}
		i = len(p.args)
		p.args = append(p.args, "--parts", "0")
	}
	p.args[i+1] = map[bool]string{true: "1", false: "0"}[p.args[i+1] == "0"]
	if p.kind == "rdfgen" {
		return nil // the timer starts it
	}
	if err := p.start(); err != nil {
		return err
	}
	p.says("scanned", 3*time.Second)
	return nil
}

// cron runs rdfgen, as a timer does on a site without a notifier.
func (w *world) cron(ctx context.Context, s *site) {
	p := w.procs["rdfgen-"+s.Name]
	if p == nil {
		return
	}
	if err := p.start(); err != nil {
		w.fail(err)
		return
	}
	if !p.wait(20 * time.Second) {
		w.fail(fmt.Errorf("rdfgen does not end"))
		p.kill()
	}
}

// fillDisk fills the crawler's file system, if it has one of its own.
func (w *world) fillDisk() {
	if w.disk == "" {
		return
	}
	f, err := os.Create(filepath.Join(w.disk, "full"))
	if err != nil {
		w.fail(err)
		return
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

func (w *world) emptyDisk() {
	if w.disk != "" {
		os.Remove(filepath.Join(w.disk, "full"))
	}
}
