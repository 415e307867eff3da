package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// tool returns the path of a program. Without it the test is skipped, or fails where all tools are required.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p
		}
	}
	missing(t, "no "+name+" on this machine")
	return ""
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("PARLEY_REQUIRE") == "all" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// A webServer is an nginx with default settings, serving a docroot.
type webServer struct {
	t      *testing.T
	client *http.Client
}

func serveNginx(t *testing.T, root string) *webServer {
	nginx, dir := tool(t, "nginx"), t.TempDir()
	sock := filepath.Join(dir, "sock")
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // who owns the test's directories
	}
	conf := fmt.Sprintf("%[3]s daemon off; pid %[1]s/pid; error_log %[1]s/error.log;\nevents {}\nhttp {\naccess_log off; default_type text/html;\n"+
		"client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n"+
		"server { listen unix:%[1]s/sock; root %[2]s; }\n}\n", dir, root, user)
	file := filepath.Join(dir, "nginx.conf")
	must.Write(t, file, conf)
	cmd := exec.Command(nginx, "-c", file, "-p", dir, "-e", filepath.Join(dir, "error.log"))
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("unix", sock); err == nil {
			c.Close()
			break
		} else if time.Since(begin) > 10*time.Second {
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Fatalf("nginx does not respond: %v\n%s", err, log)
		}
	}
	return &webServer{t, &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sock)
	}}}}
}

// validators are a visitor's copy of a page's validators.
type validators struct{ etag, modified string }

// get fetches a page, and returns the status and its validators.
func (s *webServer) get(url string, condition ...string) (int, validators) {
	s.t.Helper()
	req := must.Get(http.NewRequest("GET", url, nil))
	if len(condition) > 0 {
		req.Header.Set(condition[0], condition[1])
	}
	resp := must.Get(s.client.Do(req))
	resp.Body.Close()
	return resp.StatusCode, validators{resp.Header.Get("Etag"), resp.Header.Get("Last-Modified")}
}

// valid counts the copies that the web server confirms as valid, by each validator.
func (s *webServer) valid(copies map[string]validators) (etags, dates int) {
	s.t.Helper()
	for url, v := range copies {
		if status, _ := s.get(url, "If-None-Match", v.etag); status == http.StatusNotModified {
			etags++
		}
		if status, _ := s.get(url, "If-Modified-Since", v.modified); status == http.StatusNotModified {
			dates++
		}
	}
	return etags, dates
}

// A nightly rebuild of git's documentation writes every file again with the same bytes. For nginx all files
// are new, so every cached copy is invalid; after healing, all are valid again.
func TestHealNginx(t *testing.T) {
	t.Parallel()
	source := os.Getenv("PARLEY_GIT_DOC")
	if source == "" {
		missing(t, "PARLEY_GIT_DOC is not a git-doc directory")
	}
	d := newDocroot(t)
	pages := 0
	build := func() {
		t.Helper()
		pages = 0
		d.must(filepath.WalkDir(source, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".html" {
				return err
			}
			b := must.Get(os.ReadFile(path))
			rel := must.Get(filepath.Rel(source, path))
			d.write(filepath.ToSlash(rel), string(b))
			pages++
			return nil
		}))
	}
	build()
	yesterday := time.Now().Add(-24 * time.Hour)
	d.must(filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			err = os.Chtimes(path, yesterday, yesterday)
		}
		yesterday = yesterday.Add(time.Second / 7)
		return err
	}))
	j := must.Get(server.OpenJournal(t.Context(), filepath.Join(filepath.Dir(d.dir), "state"), server.JournalOptions{Base: base}))
	defer j.Close()
	pub := &server.Publisher{Inventory: d.site, Journal: j, Pace: server.Pace{Once: true}, Log: testLog(t)}
	turn := func() inventory.Report {
		t.Helper()
		return must.Get(pub.Turn(t.Context()))
	}
	turn()
	web := serveNginx(t, d.dir)
	copies := map[string]validators{}
	for _, o := range d.look() {
		if o.LeftOut != "" {
			continue
		}
		status, v := web.get(o.URL)
		if status != http.StatusOK || v.etag == "" || v.modified == "" {
			t.Fatalf("%s: %d %+v", o.URL, status, v)
		}
		copies[o.URL] = v
	}
	n := len(copies)
	if n != pages || n != j.Len() || n < 100 {
		t.Fatalf("%d pages built, %d served, %d in the journal", pages, n, j.Len())
	}
	if etags, dates := web.valid(copies); etags != n || dates != n {
		t.Fatalf("before the rebuild %d and %d of %d copies are valid", etags, dates, n)
	}

	build()
	if rep := turn(); rep.ChangeCount() != 0 {
		t.Errorf("the rebuild: %v", rep)
	}
	etags, dates := web.valid(copies)
	t.Logf("not healed: 304 for %d of %d entity tags, %d dates", etags, n, dates)
	if etags != 0 || dates != 0 {
		t.Error("nginx did not notice the rebuild: the test shows nothing")
	}
	build()
	pub.Pages.Healer = d.site
	if rep := turn(); rep.ChangeCount() != 0 || rep.Healed != n {
		t.Errorf("the rebuild, healed: %v", rep)
	}
	etags, dates = web.valid(copies)
	t.Logf("healed: 304 for %d of %d entity tags, %d dates", etags, n, dates)
	if etags != n || dates != n {
		t.Error("unchanged copies are not valid")
	}
	if h := j.Head(); h.Seq != 0 {
		t.Errorf("changes were reported: %v", h)
	}

	// Two edits of one length within a second.
	page := base + "git-add.html"
	d.write("git-add.html", "one edit")
	before := must.Get(os.Stat(d.path("git-add.html")))
	turn()
	_, one := web.get(page)
	d.write("git-add.html", "and more")
	d.must(os.Chtimes(d.path("git-add.html"), before.ModTime(), before.ModTime().Truncate(time.Second).Add(999*time.Millisecond)))
	if status, _ := web.get(page, "If-None-Match", one.etag); status != http.StatusNotModified {
		t.Errorf("nginx notices the second edit by itself: %d", status)
	}
	if rep := turn(); rep.Changed != 1 {
		t.Errorf("the second edit: %v", rep)
	}
	for _, c := range [][2]string{{"If-None-Match", one.etag}, {"If-Modified-Since", one.modified}} {
		if status, v := web.get(page, c[0], c[1]); status != http.StatusOK {
			t.Errorf("%s %s: false %d, the page has %+v", c[0], c[1], status, v)
		}
	}
	if !strings.Contains(one.etag, "-8") {
		t.Errorf("nginx makes %s of the time and the size", one.etag)
	}
}
