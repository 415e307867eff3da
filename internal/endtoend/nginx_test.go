package endtoend

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// TestGitDocBehindNginx is the complete setup: a real site behind a real nginx, with the server block of the
// examples, followed through every kind of change, with exactly one GET for each new or changed page.
func TestGitDocBehindNginx(t *testing.T) {
	nginx := machine.Tool(t, "nginx")
	gitDoc := machine.GitDoc(t)
	r := newRig(t)
	r.must(os.RemoveAll(r.root))
	r.must(os.CopyFS(r.root, os.DirFS(gitDoc)))
	access := r.behindNginx(nginx, "")

	r.startNotifier()
	r.startCrawler()
	r.identical()
	pages := must.Get(filepath.Glob(filepath.Join(gitDoc, "*.html")))
	if n := len(tree(t, r.mirror)); n < len(pages) {
		t.Errorf("the mirror has %d pages, want at least %d", n, len(pages))
	}
	asked := access.pages()
	if n := len(tree(t, r.mirror)); len(asked) != n {
		t.Errorf("the first copy fetched %d pages, want %d", len(asked), n)
	}
	exactlyOnce(t, "first copy", asked, keys(asked))

	change := func(what string, do func(), want ...string) {
		t.Helper()
		do()
		r.identical()
		exactlyOnce(t, what, access.pages(), want)
	}
	change("edits", func() {
		r.edit("git-add.html")
		r.edit("howto/new-command.html")
	}, "/git-add.html", "/howto/new-command.html")
	// index.html is a symbolic link to git.html: two pages, one file.
	change("an edit below two names", func() { r.edit("git.html") }, "/", "/git.html")
	change("creations", func() {
		r.write("brand new.html", "<title>new</title>")
		r.write("deep/er/page.html", "<title>deep</title>")
	}, "/brand%20new.html", "/deep/er/page.html")
	change("a rename", func() { r.must(os.Rename(r.path("git-log.html"), r.path("git-log-2.html"))) })
	change("a directory rename", func() { r.must(os.Rename(r.path("howto"), r.path("how-to"))) })
	change("edit after rename", func() { r.edit("git-log-2.html") }, "/git-log-2.html")
	change("deletions, once accepted", func() {
		r.must(os.Remove(r.path("git-am.html")))
		r.must(os.RemoveAll(r.path("deep")))
		r.until("the deletions are held", func() bool {
			found, _ := r.look()
			return found.HeldNow == 2
		})
		if out, code := r.rdfgen("--accept-deletions"); code != 0 {
			t.Fatalf("accept deletions: exit %d: %s", code, out)
		}
	})
}

// edit appends to a page in place.
func (r *rig) edit(name string) {
	r.t.Helper()
	f := must.Get(os.OpenFile(r.path(name), os.O_APPEND|os.O_WRONLY, 0))
	must.Get(fmt.Fprintf(f, "<!-- edited %d -->\n", time.Now().UnixNano()))
	r.must(f.Close())
}

func keys(m map[string]int) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

// exactlyOnce wants one GET for each of the paths and none for any other.
func exactlyOnce(t *testing.T, what string, got map[string]int, want []string) {
	t.Helper()
	for _, p := range want {
		if got[p] != 1 {
			t.Errorf("%s: %d GETs of %s, want 1", what, got[p], p)
		}
		delete(got, p)
	}
	for p, n := range got {
		t.Errorf("%s: %d GETs of %s, want none", what, n, p)
	}
}

// An accessLog reads nginx's log from where it was last read.
type accessLog struct {
	t    *testing.T
	path string
	seen int64
}

// pages returns the number of requests of Parley's crawler for each page, without the doors and robots.txt.
func (a *accessLog) pages() map[string]int {
	a.t.Helper()
	got := a.requests()
	maps.DeleteFunc(got, func(uri string, _ int) bool { return isDoor(uri) })
	return got
}

// requests returns the number of requests of Parley's crawler for each URL since the last call.
func (a *accessLog) requests() map[string]int {
	a.t.Helper()
	f := must.Get(os.Open(a.path))
	defer f.Close()
	must.Get(f.Seek(a.seen, 0))
	got := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		a.seen += int64(len(s.Bytes())) + 1
		fields := strings.Split(s.Text(), `"`) // combined: host - - [time] "request" status bytes "referer" "agent"
		if len(fields) < 6 || !strings.HasPrefix(fields[5], "Parley/") {
			continue
		}
		_, uri, _ := strings.Cut(fields[1], " ")
		uri, _, _ = strings.Cut(uri, " ")
		got[uri]++
	}
	return got
}

// behindNginx serves the rig's docroot with a real nginx instead of the test's own web server, using the
// server block of examples/nginx with the site's own locations in it.
func (r *rig) behindNginx(nginx, locations string) *accessLog {
	r.t.Helper()
	dir := filepath.Dir(r.root)
	block := must.Get(os.ReadFile("../../examples/nginx/parley.conf"))
	pages := must.Get(filepath.Abs("../../examples/nginx/parley-pages.conf"))
	addr := front.FreeAddress()
	conf := strings.NewReplacer(
		"listen 80;", "listen "+addr+";",
		"server_name www.example.org;", "server_name 127.0.0.1;",
		"root /var/www/html;", "root "+r.root+";",
		"server 127.0.0.1:8639;", "server "+r.sidecar+";",
		"/etc/nginx/parley-pages.conf", pages,
	).Replace(strings.Replace(string(block), "    # The manifest.", locations+"    # The manifest.", 1))
	for _, want := range []string{addr, r.root, r.sidecar} {
		if !strings.Contains(conf, want) {
			r.t.Fatalf("examples/nginx/parley.conf: no place for %s in\n%s", want, conf)
		}
	}
	log := filepath.Join(dir, "access.log")
	whole := fmt.Sprintf("daemon off;\nmaster_process off;\nuser root;\npid %[1]s/nginx.pid;\nerror_log %[1]s/error.log;\nevents {}\nhttp {\n"+
		"include /etc/nginx/mime.types;\naccess_log %[2]s combined;\nclient_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\n"+
		"fastcgi_temp_path %[1]s/fastcgi;\nuwsgi_temp_path %[1]s/uwsgi;\nscgi_temp_path %[1]s/scgi;\n%[3]s\n}\n", dir, log, conf)
	file := filepath.Join(dir, "nginx.conf")
	must.Write(r.t, file, whole)
	cmd := exec.Command(nginx, "-c", file, "-p", dir)
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	r.must(cmd.Start())
	r.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	r.base = "http://" + addr + "/"
	r.until("nginx listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if resp, err := http.Get(r.base); err != nil {
		r.t.Fatalf("nginx: %v\n%s", err, said.String())
	} else {
		resp.Body.Close()
	}
	return &accessLog{t: r.t, path: log}
}
