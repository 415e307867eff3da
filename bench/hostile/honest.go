package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
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

const (
	token = "a-token-of-the-measurement"

	// honestAddr is the address of the honest clients.
	honestAddr = "198.51.100.7"

	editEvery = 120 * time.Millisecond // on average
	askEvery  = 30 * time.Millisecond
	patience  = 10 * time.Second
)

// A site is the target: a notifier with its pages.
type site struct {
	root, base string
	pages      []string // names below the docroot
	notifier   *program.Program
	from       protocol.Cursor // before all changes
	edited     int             // so far

	edits     edits
	listening sync.WaitGroup
}

// start writes the pages, starts the notifier on them, and makes a history of a thousand changes.
func start(ctx context.Context, dir string, o options) (s *site, err error) {
	s = &site{root: filepath.Join(dir, "site")}
	if err := s.lay(o); err != nil {
		return nil, err
	}
	addr, err := free()
	if err != nil {
		return nil, err
	}
	s.base = "http://" + addr + "/"
	callers := filepath.Join(dir, "callers")
	if err := os.WriteFile(callers, []byte("Hostile "+token+" agents\n"), 0o600); err != nil {
		return nil, err
	}
	s.notifier, err = program.Start(ctx, nil, o.notify, "--docroot", s.root, "--base", s.base, "--listen", addr, "--state", filepath.Join(dir, "state"),
		"--preset", "high", "--serve-pages", "--versions", "200MB", "--callers", callers, "--no-self-check", "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.notifier.End()
			err = fmt.Errorf("%w\n%s", err, s.notifier.Tail())
		}
	}()
	if err := s.until(ctx, func() bool { return program.Get(s.base+"robots.rdf") == nil }); err != nil {
		return nil, err
	}
	m, err := s.head()
	if err != nil {
		return nil, err
	}
	s.from = protocol.Cursor{Epoch: m.Epoch}
	for n := 0; n < 1000; n += len(s.pages) {
		for i := range s.pages {
			if _, err := s.edit(i); err != nil {
				return nil, err
			}
		}
		want := m.Seq + uint64(len(s.pages))
		if err := s.until(ctx, func() bool { m, err = s.head(); return err == nil && m.Seq >= want }); err != nil {
			return nil, err
		}
	}
	if err := s.until(ctx, func() bool { return program.Get(s.base+"parley/site.wacz") == nil }); err != nil {
		return nil, err
	}
	return s, s.listen(ctx)
}

// lay copies pages into the docroot.
func (s *site) lay(o options) error {
	err := fs.WalkDir(os.DirFS(o.docroot), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(name, ".html") || len(s.pages) == o.pages {
			return err
		}
		text, err := os.ReadFile(filepath.Join(o.docroot, name))
		if err != nil {
			return err
		}
		s.pages = append(s.pages, name)
		file := filepath.Join(s.root, name)
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644))
	})
	if err == nil && len(s.pages) < 10 {
		err = errors.New("fewer than 10 pages")
	}
	if err != nil {
		return fmt.Errorf("%s: %w: set -docroot to a directory of pages, such as that of Debian's git-doc", o.docroot, err)
	}
	return nil
}

func (s *site) until(ctx context.Context, done func() bool) error {
	for began := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.notifier.Ended() || time.Since(began) > time.Minute:
			return errors.New("the notifier delivers no changes")
		}
	}
	return nil
}

// edit replaces a page with a version that has another ending of the same length, and returns its digest.
func (s *site) edit(page int) (protocol.Digest, error) {
	s.edited++
	file := filepath.Join(s.root, s.pages[page])
	text, err := os.ReadFile(file)
	if err != nil {
		return protocol.Digest{}, err
	}
	const begin = "\n<!-- edited: "
	if i := strings.LastIndex(string(text), begin); i >= 0 {
		text = text[:i]
	}
	text = fmt.Appendf(text, "%s%08d -->\n", begin, s.edited)
	if err := os.WriteFile(file+".new~", text, 0o644); err != nil {
		return protocol.Digest{}, err
	}
	return protocol.Sum(text), os.Rename(file+".new~", file)
}

var honest = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: patience}

// get sends an honest request and returns the whole response.
func (s *site) get(ref string) ([]byte, error) {
	r, err := http.NewRequest(http.MethodGet, s.base+ref, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Forwarded-For", honestAddr)
	resp, err := honest.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", ref, resp.Status)
	}
	return text, err
}

// head returns the site's current cursor.
func (s *site) head() (protocol.Cursor, error) {
	text, err := s.get(".well-known/parley")
	if err != nil {
		return protocol.Cursor{}, err
	}
	var d protocol.Discovery
	err = json.Unmarshal(text, &d)
	return d.Head, err
}

// listen follows the site during the whole run: a client that connected while attackers had all the
// subscriptions would get none.
func (s *site) listen(ctx context.Context) error {
	head, err := s.head()
	if err != nil {
		return err
	}
	for _, as := range []string{"meta", "page"} {
		conn, err := wsconn.Dial(ctx, "ws"+strings.TrimPrefix(s.base, "http")+"parley/stream?as="+as+"&after="+head.String(),
			http.Header{"X-Forwarded-For": {honestAddr}}, nil, wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage})
		if err != nil {
			return err
		}
		s.listening.Go(func() {
			defer conn.Close(1000, "")
			for err == nil {
				err = s.edits.hear(ctx, conn, as)
			}
			s.edits.broke(err)
		})
	}
	return nil
}

// measure lets the honest clients work for a while, and records their latencies.
func (s *site) measure(ctx context.Context, p *phase, last time.Duration) error {
	head, err := s.head()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var working sync.WaitGroup
	e := &s.edits
	e.begin()
	end := time.Now().Add(last)
	// Each works at random moments until the end.
	repeat := func(every time.Duration, work func() error) {
		working.Go(func() {
			for {
				pause := time.Duration(rand.ExpFloat64() * float64(every))
				if time.Now().Add(pause).After(end) || ctx.Err() != nil {
					return
				}
				time.Sleep(pause)
				if err := work(); err != nil {
					stop(err)
				}
			}
		})
	}
	times := func(ref func() string, d *[]time.Duration) func() error {
		return func() error {
			began := time.Now()
			_, err := s.get(ref())
			*d = append(*d, time.Since(began))
			return err
		}
	}
	question := head
	question.Seq -= 10
	repeat(askEvery, times(func() string { return "parley/changes?limit=10&after=" + question.String() }, &p.asked))
	repeat(askEvery, times(func() string { return s.pages[rand.IntN(len(s.pages))] }, &p.page))
	repeat(editEvery, func() error { return e.add(s) })
	working.Wait()
	for began := time.Now(); !e.allTold() && time.Since(began) < patience && ctx.Err() == nil; {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.memory = max(p.memory, rss(s.notifier.PID()))
	return e.take(p)
}

// edits are the edits of a phase.
type edits struct {
	mu    sync.Mutex
	wrote map[protocol.Digest]time.Time
	told  map[string]map[protocol.Digest]time.Duration // by form
	err   error                                        // why the streams ended
}

func (e *edits) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrote = map[protocol.Digest]time.Time{}
	e.told = map[string]map[protocol.Digest]time.Duration{"meta": {}, "page": {}}
}

// add edits one page after the other: the site debounces a page that changes again at once, which is not
// measured here.
func (e *edits) add(s *site) error {
	e.mu.Lock() // no stream may report an edit before its time is recorded
	defer e.mu.Unlock()
	digest, err := s.edit(s.edited % len(s.pages))
	e.wrote[digest] = time.Now()
	return err
}

// hear processes a message.
func (e *edits) hear(ctx context.Context, conn *wsconn.Conn, as string) error {
	text, err := conn.Read(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	m, err := protocol.ParseMessage(text)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range m.Changes {
		digest := m.Changes[i].Item.Digest
		if wrote, ok := e.wrote[digest]; ok && (as == "meta" || i < len(m.Bodies) && !m.Bodies[i].IsZero()) {
			e.told[as][digest] = now.Sub(wrote)
		}
	}
	return nil
}

func (e *edits) broke(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// allTold reports whether there is nothing more to wait for.
func (e *edits) allTold() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err != nil || len(e.told["meta"]) == len(e.wrote) && len(e.told["page"]) == len(e.wrote)
}

// take adds the recorded latencies to a phase.
func (e *edits) take(p *phase) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.edits += len(e.wrote)
	for as, d := range map[string]*[]time.Duration{"meta": &p.told, "page": &p.withPage} {
		for _, took := range e.told[as] {
			*d = append(*d, took)
		}
	}
	return e.err
}
