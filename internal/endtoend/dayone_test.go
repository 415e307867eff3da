package endtoend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// An engine receives IndexNow requests as search engines do: it fetches the key before it trusts the request.
type engine struct {
	mu   sync.Mutex
	urls []string
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var said struct {
		Host, Key, KeyLocation string
		URLList                []string
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&said); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	where := said.KeyLocation
	if where == "" {
		where = "http://" + said.Host + "/" + said.Key + ".txt"
	}
	resp, err := http.Get(where)
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer resp.Body.Close()
	if key, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)); strings.TrimSpace(string(key)) != said.Key {
		http.Error(w, "the key is not there", http.StatusForbidden)
		return
	}
	e.mu.Lock()
	e.urls = append(e.urls, said.URLList...)
	e.mu.Unlock()
}

func (e *engine) told() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.urls)
}

// TestDayOne runs the session in docs/day-one.md: what a new admin types, and the results, with a real nginx.
func TestDayOne(t *testing.T) {
	nginx := machine.Tool(t, "nginx")
	for _, tool := range []string{"bash", "curl"} {
		machine.Tool(t, tool)
	}
	dir := t.TempDir()
	root, logs, tools, state := filepath.Join(dir, "html"), filepath.Join(dir, "log"), filepath.Join(dir, "bin"), filepath.Join(dir, "lib")
	for _, d := range []string{logs, tools, state, filepath.Join(dir, "etc")} {
		must.OK(t, os.Mkdir(d, 0o755))
	}
	must.OK(t, os.CopyFS(root, os.DirFS("../../examples/quickstart/site")))
	// The site was copied an hour ago: all pages have one date.
	then := time.Now().Add(-time.Hour)
	must.OK(t, filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(p, then, then))
	}))
	gone := filepath.Join(dir, "etc/parley-gone.conf")
	must.OK(t, os.WriteFile(gone, nil, 0o644))
	addr := front.FreeAddress()
	conf := filepath.Join(dir, "nginx.conf")
	must.OK(t, os.WriteFile(conf, fmt.Appendf(nil, "pid %[1]s/nginx.pid;\nerror_log %[1]s/error.log;\nuser root;\nevents {}\nhttp {\n"+
		"include /etc/nginx/mime.types;\naccess_log %[2]s/access.log combined;\nclient_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\n"+
		"fastcgi_temp_path %[1]s/fastcgi;\nuwsgi_temp_path %[1]s/uwsgi;\nscgi_temp_path %[1]s/scgi;\n"+
		"server { listen %[3]s; server_name 127.0.0.1; root %[4]s; index index.html; include %[5]s; location = /robots.rdf { types { application/rdf+xml rdf; } } }\n}\n", dir, logs, addr, root, gone), 0o644))
	// The session's "nginx" is the one of this test. A reload returns when the old worker is gone, so that
	// the new one answers the next request.
	must.OK(t, os.WriteFile(filepath.Join(tools, "nginx"), fmt.Appendf(nil, "#!/bin/sh\nold=$(pgrep -P \"$(cat %[3]s/nginx.pid 2>/dev/null)\" 2>/dev/null)\n"+
		"%[1]s -c %[2]s -p %[3]s \"$@\" || exit 1\n[ \"$2\" != reload ] || while kill -0 $old 2>/dev/null; do sleep 0.02; done\n", nginx, conf, dir), 0o755))
	must.OK(t, exec.Command(filepath.Join(tools, "nginx")).Run())
	t.Cleanup(func() { exec.Command(filepath.Join(tools, "nginx"), "-s", "stop").Run() })

	var e engine
	search := httptest.NewServer(&e)
	t.Cleanup(search.Close)

	const doc = "../../docs/day-one.md"
	readTranscript(t, doc).run(t, doc, dir,
		[]string{"PATH=" + tools + string(os.PathListSeparator) + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "STATE_DIRECTORY=" + state, "TZ=UTC"},
		map[string]string{
			"/var/www/html":               root,
			"/var/log/nginx":              logs,
			"/etc/parley.conf":            filepath.Join(dir, "etc/parley.conf"),
			"/etc/nginx/parley-gone.conf": gone,
			"http://www.example.org":      "http://" + addr,
			"www.example.org":             "127.0.0.1",
			"http://127.0.0.1:8650":       search.URL,
		})

	// The engine was notified of each page that the session changed, once, and of no other.
	got := e.told()
	for i, u := range got {
		got[i] = strings.TrimPrefix(u, "http://"+addr+"/")
	}
	slices.Sort(got)
	if want := []string{"history.html", "news.html", "story.html", "visit/hours.html"}; !slices.Equal(got, want) {
		t.Errorf("the engine was notified of %q, want %q", got, want)
	}
}

// The two commands can share one configuration file.
func TestSharedConfiguration(t *testing.T) {
	option := regexp.MustCompile(`(?m)^  --([a-z0-9-]+)( .+)?$`)
	has := func(program string) map[string]bool {
		out, _ := run(t, program, "--help-all")
		names := map[string]bool{}
		for _, m := range option.FindAllStringSubmatch(out, -1) {
			names[m[1]] = true
		}
		return names
	}
	options := map[string]map[string]bool{"rdfgen": has("rdfgen"), "notifier": has("notifier")}
	for program, other := range map[string]string{"rdfgen": "notifier", "notifier": "rdfgen"} {
		for name := range options[other] {
			if options[program][name] || name == "version" {
				continue
			}
			file := filepath.Join(t.TempDir(), "parley.conf")
			must.Write(t, file, name+" 1\nno-such-option 1\n")
			if out, _ := run(t, program, "--config", file); strings.Contains(out, name) || !strings.Contains(out, "no-such-option") {
				t.Errorf("%s rejects %s in a configuration file, an option of %s: %s", program, name, other, out)
			}
		}
	}
}
