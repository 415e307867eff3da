package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
)

func free() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// begin starts a program with a page, and waits for five minutes at most until it is ready.
func begin(ctx context.Context, o *options, name string, end func(), ready func(*subject) bool, args ...string) (*subject, error) {
	admin, err := free()
	if err != nil {
		end()
		return nil, err
	}
	p, err := program.Start(ctx, nil, filepath.Join(o.dir, name), append(args, "--admin", admin, "--log-level", "warn")...)
	if err != nil {
		end()
		return nil, err
	}
	s := &subject{name: name, admin: "http://" + admin, program: p, end: func() { p.End(); end() }}
	waiting, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := program.Until(waiting, name, func() bool { return ready(s) }, p); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// startCrawler starts sites of 100 pages each and a crawler, and returns when that has stored all pages. From then on it is told to fetch
// ten of them twice a second.
func startCrawler(ctx context.Context, o *options) (*subject, error) {
	web := &http.Server{Handler: http.HandlerFunc(servePage)}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	end := func() { cancel(); web.Close(); serving.Wait() }
	var sites []string
	port := "0"
	for i := range o.pages / 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.%d.%d:%s", 1+i/250, 1+i%250, port))
		if err != nil {
			end()
			return nil, err
		}
		_, port, _ = net.SplitHostPort(ln.Addr().String())
		serving.Go(func() { web.Serve(ln) })
		sites = append(sites, "http://"+ln.Addr().String()+"/")
	}
	s, err := begin(ctx, o, "crawler", end, func(s *subject) bool {
		var status struct{ Held int }
		text, err := s.text(ctx, http.DefaultClient, "GET", "/api/status", http.StatusOK)
		return err == nil && json.Unmarshal(text, &status) == nil && status.Held >= o.pages/100*100
	}, append([]string{"run", "--into", filepath.Join(o.dir, "crawl"), "--allow-private", "--wait", "0", "--trap-share", "1"}, sites...)...)
	if err != nil {
		return nil, err
	}
	serving.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			var list []string
			for i := range 10 {
				list = append(list, fmt.Sprintf(`"%sp%d.html"`, sites[(10*n+i)%len(sites)], 1+n%99))
			}
			r, err := http.NewRequestWithContext(ctx, "POST", s.admin+"/api/add", strings.NewReader("["+strings.Join(list, ",")+"]"))
			if err != nil {
				return
			}
			r.Header.Set("Origin", s.admin)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return s, nil
}

// servePage serves a site whose first page links to 99 others. One in ten differs each minute.
func servePage(w http.ResponseWriter, r *http.Request) {
	n := 0
	if _, err := fmt.Sscanf(r.URL.Path, "/p%d.html", &n); r.URL.Path != "/" && err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!DOCTYPE html><title>Page %d of %s</title><p>%s", n, r.Host, strings.Repeat(fmt.Sprintf("Sentence of page %d of %s. ", n, r.Host), 40))
	if n%10 == 1 {
		fmt.Fprint(w, "It is ", time.Now().Format("15:04"))
	}
	for i := 1; n == 0 && i < 100; i++ {
		fmt.Fprintf(w, " <a href=/p%d.html>page %d</a>", i, i)
	}
}

// startNotifier starts a notifier and its listeners, and edits a page twice a second.
func startNotifier(ctx context.Context, o *options) (*subject, error) {
	root := filepath.Join(o.dir, "site")
	edit := func(page, version int) error {
		name := filepath.Join(root, fmt.Sprintf("p%d.html", page))
		text := fmt.Sprintf("<!DOCTYPE html><title>Page %d</title><p>Version %d of page %d.</p>%s\n", page, version, page, strings.Repeat("<p>Text.</p>", 100))
		return errors.Join(os.WriteFile(name+"~", []byte(text), 0o644), os.Rename(name+"~", name))
	}
	const pages = 200
	err := os.MkdirAll(root, 0o755)
	for i := range pages {
		err = errors.Join(err, edit(i, 0))
	}
	address, wrong := free()
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	listeners := o.pages / 30
	most := fmt.Sprint(listeners + 10)
	var found protocol.Discovery
	ready := func(*subject) bool {
		resp, err := http.Get("http://" + address + "/.well-known/parley")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&found) == nil && !found.Head.IsZero()
	}
	s, err := begin(ctx, o, "notifier", func() { cancel(); working.Wait() }, ready,
		"--docroot", root, "--base", "http://"+address+"/", "--listen", address, "--state", filepath.Join(o.dir, "state"), "--serve-pages", "--no-self-check",
		"--max-subscribers", most, "--per-address", most)
	if err != nil {
		return nil, err
	}
	for i := range listeners {
		conn, err := wsconn.Dial(ctx, "ws://"+address+"/parley/stream?as=meta&after="+found.Head.String(), http.Header{"User-Agent": {fmt.Sprintf("Listener %d", i)}}, nil,
			wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage})
		if err != nil {
			s.end()
			return nil, err
		}
		working.Go(func() {
			defer conn.Close(1000, "")
			for err == nil {
				_, err = conn.Read(ctx)
			}
		})
	}
	working.Go(func() {
		for version := 1; ctx.Err() == nil && edit(version%pages, version) == nil; version++ {
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return s, nil
}
