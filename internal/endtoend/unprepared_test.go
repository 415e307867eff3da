package endtoend

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// TestUnpreparedSites crawls, crawls again, runs on and mirrors unmodified sites behind nginx, with a
// protected directory, pages that differ at each request and a page that is too big, and with the defaults of
// all programs but --wait 0 and --allow-private. PARLEY_DOCROOTS lists the docroots, as PATH lists
// directories.
func TestUnpreparedSites(t *testing.T) {
	nginx := machine.Tool(t, "nginx")
	list := filepath.SplitList(os.Getenv("PARLEY_DOCROOTS"))
	if len(list) == 0 {
		machine.Lacks(t, "PARLEY_DOCROOTS is not set")
	}
	for _, docroot := range list {
		t.Run(filepath.Base(docroot), func(t *testing.T) { unprepared(t, nginx, docroot) })
	}
}

func unprepared(t *testing.T, nginx, docroot string) {
	s := newUnprepared(t, nginx, docroot)
	s.startNotifier()

	c := &crawling{t: t, dir: filepath.Join(t.TempDir(), "crawl"), args: []string{"crawl", s.base}}
	c.start()
	c.finishedWithin(8 * time.Minute)
	s.compare("crawl", s.stored(c), nil)
	s.account("crawl", s.pages)

	changed := s.editSome(max(1, len(s.pages)/100), "crawled again")
	s.told(changed)
	c.start()
	c.finishedWithin(4 * time.Minute)
	s.compare("crawl again", s.stored(c), nil)
	s.account("crawl again", changed)

	c.args[0] = "run"
	c.start()
	s.until("the crawler is connected to the stream", func() bool { return strings.Contains(c.p.said(), "stream") })
	changed = s.editSome(50, "pushed")
	s.until("all pushed edits are stored", func() bool { return s.difference(s.stored(c), changed) == "" })
	c.stop()
	s.compare("run", s.stored(c), nil)
	s.account("run", changed)

	s.startCrawler()
	s.until("the mirror is the site", func() bool { return s.difference(s.mirrored(), nil) == "" })
	s.account("follow", s.pages)
	changed = s.editSome(20, "mirrored")
	s.until("the mirror has the edits", func() bool { return s.difference(s.mirrored(), nil) == "" })
	s.crawler.stop()
	s.account("follow, edits", changed)

	s.nothingProtected(c.dir, s.mirror)
}

// An unpreparedSite is a copy of a docroot, with peculiarities of real sites that a crawler's author does not
// think of.
type unpreparedSite struct {
	*rig
	access   *accessLog
	pages    []string // paths of the pages that are public and not too big
	unstable string   // directory of the pages with a nonce, with "/" before and behind
}

const (
	protectedText = "only for who has the password"
	tooBig        = 64 << 20 // over every default limit of the crawler, under the notifier's
)

func newUnprepared(t *testing.T, nginx, docroot string) *unpreparedSite {
	t.Helper()
	s := &unpreparedSite{rig: newRig(t)}
	s.must(os.RemoveAll(s.root))
	s.copyTree(docroot)
	perDir := map[string]int{}
	for page := range tree(t, s.root) {
		perDir[strings.TrimSuffix("/"+path.Dir(page), "/.")+"/"]++
		s.pages = append(s.pages, urlPath(page))
	}
	slices.Sort(s.pages)
	for _, dir := range slices.Sorted(maps.Keys(perDir)) {
		if n := perDir[dir]; dir != "/" && n >= 3 && n <= len(s.pages)/10 {
			s.unstable = dir
			break
		}
	}
	if s.unstable == "" {
		t.Fatalf("%s has no directory of at least 3 pages and at most a tenth of all", docroot)
	}
	for i := range 5 {
		s.write(fmt.Sprintf("private/%d.html", i), fmt.Sprintf("<title>%[1]d</title><p>%[2]s, %[1]d</p>", i, protectedText))
	}
	s.write("too-big.html", "<title>too big</title>\n"+strings.Repeat("<p>More than anybody reads of a page.</p>\n", tooBig/41))
	s.access = s.behindNginx(nginx, s.locations())
	return s
}

// locations returns what the site's own server block contains beside the lines that Parley ships.
func (s *unpreparedSite) locations() string {
	return fmt.Sprintf(`
    location /private/ {
        include /etc/nginx/parley-pages.conf;
        auth_basic "private";
        auth_basic_user_file /dev/null;
    }
    location %s {
        include /etc/nginx/parley-pages.conf;
        sub_filter_once on;
        sub_filter "</body>" "<!-- $request_id --></body>";
        sub_filter "</BODY>" "<!-- $request_id --></BODY>";
    }

`, s.unstable)
}

// urlPath returns the path at which a file is served; file is the reverse.
func urlPath(name string) string {
	if path.Base(name) == "index.html" {
		name = strings.TrimSuffix(name, "index.html")
	}
	return "/" + name
}

func (s *unpreparedSite) file(urlPath string) string {
	if strings.HasSuffix(urlPath, "/") {
		urlPath += "index.html"
	}
	return s.path(urlPath)
}

func (s *unpreparedSite) copyTree(docroot string) {
	s.t.Helper()
	docroot = must.Get(filepath.EvalSymlinks(docroot))
	s.must(filepath.WalkDir(docroot, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(docroot, p)
		to := filepath.Join(s.root, rel)
		st, err := os.Stat(p) // packages link to each other's files
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case st.IsDir():
			return os.MkdirAll(to, 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	}))
}

// editSome appends to n pages spread over the site, some of them unstable.
func (s *unpreparedSite) editSome(n int, what string) (edited []string) {
	s.t.Helper()
	for i := range n {
		p := s.pages[i*len(s.pages)/n]
		b := must.Get(os.ReadFile(s.file(p)))
		s.must(os.WriteFile(s.file(p), bytes.Replace(b, []byte("</body>"), fmt.Appendf(nil, "<p>%s %d</p></body>", what, i), 1), 0o644))
		if after, _ := os.ReadFile(s.file(p)); bytes.Equal(after, b) {
			s.must(os.WriteFile(s.file(p), fmt.Appendf(b, "<!-- %s -->\n", what), 0o644))
		}
		edited = append(edited, p)
	}
	return edited
}

// told waits until the manifest has the digests of the pages on disk.
func (s *unpreparedSite) told(pages []string) {
	s.t.Helper()
	want := map[string]bool{}
	for _, p := range pages {
		b := must.Get(os.ReadFile(s.file(p)))
		want[protocol.Sum(b).String()] = true
	}
	s.until("the edits are announced", func() bool {
		resp, err := http.Get(s.base + "robots.rdf")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		for d := range want {
			if err != nil || !bytes.Contains(b, []byte(d)) {
				return false
			}
		}
		return true
	})
}

var nonce = regexp.MustCompile(`<!-- [0-9a-f]{32} -->(</(?:body|BODY)>)`)

// seen returns the digests of the pages as a visitor sees them, without nonces.
func (s *unpreparedSite) seen(pages []string) map[string]string {
	s.t.Helper()
	m := map[string]string{}
	for _, p := range pages {
		b := must.Get(os.ReadFile(s.file(p)))
		m[p] = protocol.Sum(b).String()
	}
	return m
}

// difference returns how a copy differs from the site in the pages; nil means all pages, and then the copy
// may have no others.
func (s *unpreparedSite) difference(got map[string]string, pages []string) string {
	all := pages == nil
	if all {
		pages = s.pages
	}
	want := s.seen(pages)
	for p, d := range want {
		if got[p] != d {
			return fmt.Sprintf("%s is %q, want %q", p, got[p], d)
		}
	}
	for p := range got {
		if _, ok := want[strings.TrimSuffix(p, "/index.html")+"/"]; all && !ok && want[p] == "" && p != "/too-big.html" {
			return "has " + p
		}
	}
	return ""
}

func (s *unpreparedSite) compare(what string, got map[string]string, pages []string) {
	s.t.Helper()
	if d := s.difference(got, pages); d != "" {
		n := 0
		for p, w := range s.seen(s.pages) {
			if got[p] != w {
				n++
			}
		}
		s.t.Errorf("%s: the copy differs from the site in %d of %d pages: %s", what, n, len(s.pages), d)
	}
}

// stored reads the newest body of each page of a crawl from its WARC files, without nonces.
func (s *unpreparedSite) stored(c *crawling) map[string]string {
	s.t.Helper()
	stands := c.stands()
	bodies := s.records(c.dir)
	m := map[string]string{}
	for u, state := range stands {
		digest, ok := strings.CutPrefix(state, "held ")
		p := s.pathOf(u)
		if !ok || p == "" {
			continue
		}
		m[p] = bodies[digest]
	}
	return m
}

func (s *unpreparedSite) pathOf(u string) string {
	p, ok := strings.CutPrefix(u, strings.TrimSuffix(s.base, "/"))
	if !ok {
		return ""
	}
	return must.Get(url.PathUnescape(p))
}

// records reads all bodies of the WARC files: their digests without nonces, by their recorded digests.
func (s *unpreparedSite) records(dir string) map[string]string {
	s.t.Helper()
	bodies := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz"))
	for _, name := range files {
		f, err := os.Open(name)
		s.must(err)
		zr, err := gzip.NewReader(bufio.NewReader(f))
		if err != nil {
			f.Close()
			continue // nothing is written yet
		}
		r := bufio.NewReader(zr)
		for {
			version, err := r.ReadString('\n')
			if err != nil {
				break // the end, or a record that is being written
			} else if !strings.HasPrefix(version, "WARC/") {
				continue
			}
			var kind string
			var length int64
			for {
				line, err := r.ReadString('\n')
				line = strings.TrimSpace(line)
				if err != nil || line == "" {
					break
				}
				name, value, _ := strings.Cut(line, ":")
				switch value = strings.TrimSpace(value); strings.ToLower(name) {
				case "warc-type":
					kind = value
				case "content-length":
					fmt.Sscan(value, &length)
				}
			}
			block := io.LimitReader(r, length)
			if kind == "response" {
				if resp, err := http.ReadResponse(bufio.NewReader(block), nil); err == nil {
					if b, err := io.ReadAll(resp.Body); err == nil {
						bodies[protocol.Sum(b).String()] = protocol.Sum(nonce.ReplaceAll(b, []byte("$1"))).String()
					}
				}
			}
			io.Copy(io.Discard, block)
		}
		f.Close()
	}
	return bodies
}

// mirrored returns the files of the mirror, without nonces.
func (s *unpreparedSite) mirrored() map[string]string {
	s.t.Helper()
	m := map[string]string{}
	for p := range tree(s.t, s.mirror) {
		b, err := os.ReadFile(filepath.Join(s.mirror, filepath.FromSlash(p)))
		if err == nil {
			m[urlPath(p)] = protocol.Sum(nonce.ReplaceAll(b, []byte("$1"))).String()
		}
	}
	return m
}

// account compares the requests since the last account with the changed pages: at most three more are
// allowed, except audits of unchanged pages and second requests of unstable ones, which are printed.
func (s *unpreparedSite) account(what string, changed []string) {
	s.t.Helper()
	due := map[string]bool{}
	for _, p := range changed {
		due[p] = true
	}
	var pages, audits, second, names int
	doors := map[string]int{}
	others := 0
	for uri, n := range s.access.requests() {
		p := must.Get(url.PathUnescape(uri))
		switch {
		case isDoor(uri):
			doors[uri] += n
			others += n
		case due[p]:
			pages++
			if strings.HasPrefix(p, s.unstable) {
				second += n - 1
			} else {
				pages += n - 1
			}
		case strings.HasSuffix(p, "/index.html"): // pages link to it, and the manifest names the directory
			names += n
		default:
			audits += n
		}
	}
	s.t.Logf("%s: %d pages changed; %d requests for those, %d for doors and robots.txt, %d audits, %d second requests of unstable pages, %d of other names that pages link to; doors %v", what, len(changed), pages, others, audits, second, names, doors)
	if pages+others > len(changed)+3 {
		s.t.Errorf("%s: %d requests for %d changed pages, want at most three more", what, pages+others, len(changed))
	}
}

func isDoor(uri string) bool {
	switch uri, _, _ = strings.Cut(uri, "?"); uri {
	case "/robots.txt", "/robots.rdf", "/.well-known/parley", "/sitemap.xml":
		return true
	}
	return strings.HasPrefix(uri, "/parley/")
}

// nothingProtected wants no protected text in anything that the crawlers store.
func (s *unpreparedSite) nothingProtected(dirs ...string) {
	s.t.Helper()
	for _, dir := range dirs {
		s.must(filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if zr, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
				b, _ = io.ReadAll(zr)
			}
			if bytes.Contains(b, []byte(protectedText)) {
				s.t.Errorf("%s has the text of a protected page", p)
			}
			return nil
		}))
	}
}

// finishedWithin waits until the crawler has ended by itself.
func (c *crawling) finishedWithin(limit time.Duration) {
	c.t.Helper()
	select {
	case <-c.p.done:
	case <-time.After(limit):
		c.t.Fatalf("the crawl does not end\n%s", c.p.said())
	}
	if code := c.p.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Fatalf("the crawl exits with %d\n%s", code, c.p.said())
	}
}
