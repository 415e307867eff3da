//go:build linux

package anysite

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A world is a plan in execution.
type world struct {
	plan     *Plan
	dir      string
	programs string // their directory
	tables   Tables
	visitor  *visitor
	store    string // parent directory of the crawler's copy
	disk     string // the same, if it is a file system of its own
	hosts    string // hosts file for its programs; empty if all sites have addresses
	most     time.Duration
	network  int          // 127.N.0.0/16, so that concurrent worlds do not collide
	place    net.Listener // reserves that network
	doors    int          // number of addresses assigned so far
	certs    *certificates
	names    *names
	proxy    *proxy
	log      func(format string, args ...any)

	sites  []*site
	fronts []*front
	procs  map[string]*process
	nginx  *nginx

	mu    sync.Mutex // guards the fields below
	rec   record.Recording
	conns int
	known map[string]bool // URLs that W fetches
	bad   error           // error of the runner itself
}

// A site is a Site with its addresses and files.
type site struct {
	*Site
	base, docroot, root string // root is the docroot of the host: the site's docroot unless the base has a path
	door                string // address of the notifier
	front               *front
	also                *front // a second address, nil if there is none

	mu    sync.Mutex
	files map[string]Page   // the current ones, by path
	guard map[string]string // how the front server refuses requests: 401, 403 or address, by prefix of the path
	rules string            // robots.txt as it was at first, empty if there was none
}

// sum returns the name of a body.
func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bad == nil {
		w.bad = err
	}
}

// keep stores a body that a judge may read, and returns its name.
func (w *world) keep(b []byte) string {
	s := sum(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.rec.Bodies[s]; !ok && len(b) < 4<<20 {
		w.rec.Bodies[s] = b
	}
	return s
}

// build makes the sites, their files and the servers in front of them.
func (w *world) build(ctx context.Context) (err error) {
	w.rec = record.Recording{Seed: w.plan.Seed, Features: w.plan.Features(), Bodies: map[string][]byte{}, Events: map[string][]record.Event{}, Accounts: map[string]record.Account{}}
	w.known, w.procs = map[string]bool{}, map[string]*process{}
	if w.names, err = serveNames(); err != nil {
		return err
	}
	if w.proxy, err = serveProxy(w.names); err != nil {
		return err
	}
	for i := range w.plan.Sites {
		s := &site{Site: &w.plan.Sites[i], files: map[string]Page{}, guard: map[string]string{}}
		w.sites = append(w.sites, s)
		if s.Share >= 0 {
			s.front = w.sites[s.Share].front
		} else if s.front, err = w.newFront(s.Front); err != nil {
			return err
		}
		s.front.sites = append(s.front.sites, s)
		host := s.front.ip
		if s.Host != "" {
			host = s.Host
			w.names.set(s.Host, s.front.ip)
		}
		s.base = s.front.scheme + "://" + net.JoinHostPort(host, s.front.port) + s.Path
		s.root = filepath.Join(w.dir, "www", s.Name)
		if s.Share >= 0 && s.Path != "/" {
			s.root = w.sites[s.Share].root
		}
		s.docroot = filepath.Join(s.root, filepath.FromSlash(s.Path))
		if err = w.fill(s); err != nil {
			return err
		}
		s.door = w.freeAddress()
	}
	first := w.sites[0]
	if w.plan.Chosen["place"] == "two-addresses" {
		if first.also, err = w.newFront("go"); err != nil {
			return err
		}
		first.also.sites = []*site{first}
	}
	if w.plan.Chosen["shared"] == "ports" {
		if err = w.openPorts(first); err != nil {
			return err
		}
	}
	if strings.HasPrefix(first.Front, "nginx") {
		if w.nginx, err = w.startNginx(ctx, first); err != nil {
			return err
		}
	}
	for _, f := range w.fronts {
		f.begin()
	}
	return w.writeHosts()
}

// An Unmet is a requirement of a plan that this machine lacks, such as nginx.
type Unmet struct{ What string }

func (e *Unmet) Error() string { return "not on this machine: " + e.What }

// writeHosts writes a hosts file for the programs: only some of them can be given a name server.
func (w *world) writeHosts() error {
	if !slices.ContainsFunc(w.sites, func(s *site) bool { return s.Host != "" }) {
		return nil
	}
	if os.Geteuid() != 0 {
		return &Unmet{"a private hosts file, which needs root"}
	}
	w.hosts = filepath.Join(w.dir, "hosts")
	text := "127.0.0.1 localhost\n"
	for _, s := range w.sites {
		if s.Host != "" {
			text += s.front.ip + " " + s.Host + "\n"
		}
	}
	return os.WriteFile(w.hosts, []byte(text), 0o644)
}

// fill writes the initial docroot.
func (w *world) fill(s *site) error {
	for _, q := range s.Pages {
		if err := w.write(s, q); err != nil {
			return err
		}
	}
	c := w.plan.Chosen
	if s.Name == "a" {
		if mode := c["protect"]; mode != "no" {
			s.guard["private/"] = mode
		}
		switch c["robots"] {
		case "forbids":
			s.rules = "User-agent: *\nDisallow: " + s.Path + "private/\n"
		case "delay":
			s.rules = "User-agent: *\nCrawl-delay: 0.05\n"
		case "named":
			s.rules = "User-agent: *\nDisallow: " + s.Path + "private/\n\nUser-agent: parley\nDisallow: " + s.Path + "news/\n"
		}
	}
	if s.rules == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(s.root, "robots.txt"), []byte(s.rules), 0o644)
}

// write writes the current version of a page, with its date and mode.
func (w *world) write(s *site, q Page) error {
	name := filepath.Join(s.docroot, filepath.FromSlash(q.Path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if q.Quirk == "unreadable" {
		mode = 0o600
	}
	next := filepath.Join(filepath.Dir(name), ".new-"+filepath.Base(name))
	b := q.Bytes(w.plan.Seed, s.Name)
	if err := os.WriteFile(next, b, mode); err != nil {
		return err
	}
	w.wrote(s, q.Path, b)
	if q.Version == 0 || q.Quirk == "old-dates" || q.Quirk == "future-dates" {
		at := time.Now().Add(-time.Duration(q.Age) * time.Hour).Add(time.Duration(q.Version) * time.Second)
		if err := os.Chtimes(next, at, at); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.files[q.Path] = q
	s.mu.Unlock()
	w.know(s.url(q.Path))
	w.know(s.origin() + "/robots.txt")
	return os.Rename(next, name)
}

// wrote records that a docroot is about to have a file with these bytes; nil means no file.
func (w *world) wrote(s *site, path string, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := record.Fetch{At: time.Now(), URL: s.url(path), Size: int64(len(b))}
	if b != nil {
		f.Sum = sum(b)
	}
	w.rec.Docroot = append(w.rec.Docroot, f)
}

// url returns the URL of a site's file.
func (s *site) url(path string) string {
	if path == "index.html" {
		return s.base
	}
	if s.front.clean && strings.HasSuffix(path, ".html") {
		path = strings.TrimSuffix(path, ".html")
	}
	return s.base + escapePath(path)
}

func (s *site) origin() string { return strings.TrimSuffix(s.base, s.Path) }

func (w *world) know(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[url] = true
}

// freeAddress returns an address on which nobody listens, and which no outgoing connection can use.
func (w *world) freeAddress() string {
	w.doors++
	return fmt.Sprintf("127.%d.250.%d:8080", w.network, w.doors)
}

// occupy reserves 127.N.0.0/16 for a world while it exists: several may run at a time, in this process and in
// others.
func (w *world) occupy() error {
	for w.network = 1; w.network < 255; w.network++ {
		if w.network == 77 { // anonymous clients use it
			continue
		}
		ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.250.250:1024", w.network))
		if err != nil {
			continue
		}
		door, err := net.Listen("tcp", w.freeAddress())
		if w.doors = 0; err != nil { // a program of a killed runner is still there
			ln.Close()
			continue
		}
		door.Close()
		w.place = ln
		return nil
	}
	return errors.New("no network of 127/8 is free")
}

// end closes everything that was opened.
func (w *world) end() {
	for _, p := range w.procs {
		if p.done != nil {
			p.kill()
			<-p.done
		}
	}
	if w.nginx != nil {
		w.nginx.stop()
	}
	for _, f := range w.fronts {
		f.close()
	}
	if w.disk != "" {
		syscall.Unmount(w.disk, 0)
	}
	if w.proxy != nil {
		w.proxy.close()
	}
	if w.names != nil {
		w.names.close()
	}
	if w.place != nil {
		w.place.Close()
	}
}

// newFront listens at an address that no other site has.
func (w *world) newFront(kind string) (*front, error) {
	f := &front{w: w, kind: kind, scheme: "http", clean: w.plan.Has("clean-urls"), stale: map[string]stale{}, done: make(chan struct{})}
	var err error
	f.ip = fmt.Sprintf("127.%d.%d.1", w.network, len(w.fronts)+1)
	if f.listener, err = listenStamped(net.JoinHostPort(f.ip, "0")); err != nil {
		return nil, err
	}
	_, f.port, _ = net.SplitHostPort(f.listener.Addr().String())
	if kind == "go-tls" || kind == "nginx-tls" || kind == "bad-cert" {
		f.scheme = "https"
		c, err := w.certs.of(f.ip, kind == "bad-cert")
		if err != nil {
			return nil, err
		}
		f.tls = &tls.Config{Certificates: []tls.Certificate{c}, NextProtos: []string{"h2", "http/1.1"}}
	}
	w.fronts = append(w.fronts, f)
	return f, nil
}
