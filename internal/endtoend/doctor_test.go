package endtoend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// An admin sets a site up behind nginx with setup, doctor finds no fault, and then names what breaks, one by one.
func TestSetupAndDoctor(t *testing.T) {
	nginx := machine.Tool(t, "nginx")
	r := newRig(t)
	dir := filepath.Dir(r.root)
	addr, notifier := front.FreeAddress(), front.FreeAddress()
	r.base = "http://" + addr + "/"
	t.Setenv("STATE_DIRECTORY", filepath.Join(dir, "lib"))
	r.must(os.Mkdir(filepath.Join(dir, "lib"), 0o700))
	r.write("index.html", "<title>Home</title><p>Welcome.")
	r.write("rooms/lamp.html", "<title>The lamp</title><p>It turns.")
	r.write("robots.txt", "User-agent: *\nDisallow: /staff/\nSitemap: "+r.base+"sitemap.xml\n")
	r.write("sitemap.xml", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>`+r.base+`</loc></url></urlset>`)

	// Debian's files: the site's own is a symbolic link.
	etc := filepath.Join(dir, "etc")
	conf, site, locations := filepath.Join(etc, "nginx/nginx.conf"), filepath.Join(etc, "nginx/sites-available/default"), ""
	write := func(path, text string) {
		t.Helper()
		must.Write(r.t, path, text)
	}
	write(conf, fmt.Sprintf("pid %[1]s/nginx.pid;\nerror_log %[1]s/error.log;\nuser root;\nevents {}\nhttp {\ninclude /etc/nginx/mime.types;\naccess_log off;\n"+
		"client_body_temp_path %[1]s/body;\nproxy_temp_path %[1]s/proxy;\nfastcgi_temp_path %[1]s/fastcgi;\nuwsgi_temp_path %[1]s/uwsgi;\nscgi_temp_path %[1]s/scgi;\n"+
		"include sites-enabled/*;\n}\n", dir))
	write(site, fmt.Sprintf("server {\n\tlisten %s default_server;\n\troot %s;\n\tserver_name _; # {any name}\n\n\tlocation / {\n\t\ttry_files $uri $uri/ =404;\n\t}\n}\n", addr, r.root))
	r.must(os.Chmod(site, 0o640))
	r.must(os.Mkdir(filepath.Join(etc, "nginx/sites-enabled"), 0o755))
	r.must(os.Symlink("../sites-available/default", filepath.Join(etc, "nginx/sites-enabled/default")))
	reload := func() {
		t.Helper()
		if out, err := exec.Command(nginx, "-c", conf, "-s", "reload").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := exec.Command(nginx, "-c", conf).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command(nginx, "-c", conf, "-s", "stop").Run() })

	setup := func(want int, more ...string) string {
		t.Helper()
		out, code := run(t, "rdfgen", append([]string{"setup", "--root", dir, "--base", r.base, "--listen", notifier}, more...)...)
		if code != want {
			t.Fatalf("setup: exit code %d: %s", code, out)
		}
		return out
	}
	parley := filepath.Join(etc, "parley.conf")
	if out := setup(1, "--docroot", r.root); !strings.Contains(out, "+    include parley-") || !strings.Contains(out, "nothing was written") || isFile(parley) {
		t.Errorf("setup without a terminal:\n%s", out)
	}
	// On a terminal it asks for the docroot, offers that of nginx, and asks before it writes.
	for _, c := range [][2]string{{"\n\n", "Nothing was written."}, {"\ny\n", "-s reload"}} {
		answers, want := c[0], c[1]
		if want == "-s reload" && isFile(parley) {
			t.Error("setup has written before it was told to")
		}
		cmd := exec.Command(machine.Tool(t, "script"), "-qec", strings.Join([]string{filepath.Join(bin, "rdfgen"), "setup", "--root", dir, "--base", r.base, "--listen", notifier}, " "), "/dev/null")
		cmd.Stdin = strings.NewReader(answers)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "web server serves ["+r.root+"]:") || !strings.Contains(string(out), want) {
			t.Errorf("setup on a terminal: %v\n%s", err, out)
		}
	}
	if out := setup(0, "--yes"); !strings.Contains(out, "Nothing to do") {
		t.Errorf("second setup:\n%s", out)
	}
	if st, err := os.Lstat(filepath.Join(etc, "nginx/sites-enabled/default")); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the symbolic link is gone: %v, %v", st, err)
	}
	if st, err := os.Stat(site); err != nil || st.Mode() != 0o640 {
		t.Errorf("the mode of the site's file has changed: %v, %v", st, err)
	}
	files, err := filepath.Glob(filepath.Join(etc, "nginx/parley-*.conf"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %q", err, files)
	}
	locations = files[0]
	reload()
	lines := must.Get(os.ReadFile(parley))
	write(parley, string(lines)+"webhook http://127.0.0.1:1/hook\n")
	r.notifier = start(t, nil, "notifier", "--config", parley, "--log-level", "info")

	type diagnosis struct{ Check, State, Says, Fix string }
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("doctor:\n%s", last)
		}
	})
	doctor := func(flags ...string) (found struct{ Checks []diagnosis }, code int) {
		t.Helper()
		last, code = run(t, "rdfgen", append([]string{"doctor", "--config", parley, "--json", "--hurry", "10ms"}, flags...)...)
		if err := json.Unmarshal([]byte(last), &found); err != nil {
			t.Fatalf("doctor --json: %v: %s", err, last)
		}
		return found, code
	}
	well := func(after string) {
		t.Helper()
		r.until("doctor finds no fault after "+after, func() bool { _, code := doctor(); return code == 0 })
	}
	ill := func(check, says string, flags ...string) {
		t.Helper()
		r.until("doctor names a fault of "+check+": "+says, func() bool {
			found, code := doctor(flags...)
			return code == 1 && slices.ContainsFunc(found.Checks, func(d diagnosis) bool {
				return d.State == "fault" && d.Check == check && strings.Contains(d.Says, says) && d.Fix != ""
			})
		})
	}
	// broken changes a text of a file, wants a fault, and restores the file.
	broken := func(file, old, new, check, says string) {
		t.Helper()
		was := must.Get(os.ReadFile(file))
		if !strings.Contains(string(was), old) {
			t.Fatalf("%s: no %q in\n%s", file, old, was)
		}
		write(file, strings.Replace(string(was), old, new, 1))
		reload()
		ill(check, says)
		write(file, string(was))
		reload()
		well(says)
	}

	well("setup")
	found, _ := doctor()
	for _, check := range []string{"state", "scans", "docroot", "permissions", "disk", "notifier", "doors", "robots.rdf", "robots.txt", "pages"} {
		if !slices.ContainsFunc(found.Checks, func(d diagnosis) bool { return d.Check == check && d.State == "ok" }) {
			t.Errorf("%s is not ok: %+v", check, found.Checks)
		}
	}
	if !slices.ContainsFunc(found.Checks, func(d diagnosis) bool {
		return d.Check == "evidence" && d.State == "note" && strings.Contains(d.Says, "loopback")
	}) {
		t.Errorf("doctor does not say that loopback proves little: %+v", found.Checks)
	}
	if out, code := run(t, "rdfgen", "doctor", "--config", parley); code != 0 || !strings.Contains(out, "\nok     notifier     running, at "+notifier+"\n") || !strings.HasSuffix(out, ", 0 faults\n") {
		t.Errorf("doctor: exit code %d:\n%s", code, out)
	}

	old := must.Get(http.Get(r.base + "robots.rdf"))
	copied := filepath.Join(dir, "copied.rdf")
	f := must.Get(os.Create(copied))
	must.Get(f.ReadFrom(old.Body))
	r.must(f.Close())
	old.Body.Close()
	r.edit("rooms/lamp.html")
	well("an edit")
	r.until("doctor names the webhook that fails", func() bool {
		found, code := doctor()
		return code == 0 && slices.ContainsFunc(found.Checks, func(d diagnosis) bool {
			return d.Check == "senders" && d.State == "note" && strings.HasPrefix(d.Says, "--webhook http://127.0.0.1:1/hook: ") && strings.Contains(d.Fix, "tried again")
		})
	})

	broken(locations, "location ^~ /parley/", "location /elsewhere/", "doors", "parley/changes: the answer is 404 Not Found")
	broken(locations, "location = /.well-known/parley", "location /elsewhere", "doors", ".well-known/parley: the answer is 404 Not Found")
	broken(locations, "    proxy_set_header Upgrade $http_upgrade;\n", "", "doors", "parley/stream: dial ")
	broken(locations, "proxy_pass http://"+notifier, "proxy_hide_header Content-Type; add_header Content-Type text/plain; proxy_pass http://"+notifier, "robots.rdf", "served as text/plain")
	broken(locations, "proxy_pass http://"+notifier, "types {} default_type application/rdf+xml; alias "+copied, "robots.rdf", "is out of date")
	broken(site, "root "+r.root, "root "+filepath.Join(dir, "lib"), "pages", "a page is not found")
	broken(parley, "base ", "exclude        none\ncallers        "+locations+"\nbase ", "permissions", "can be read by everybody")

	state, err := filepath.Glob(filepath.Join(dir, "lib/*.db"))
	if err != nil || len(state) != 1 {
		t.Fatalf("%v: %q", err, state)
	}
	r.must(os.Chmod(state[0], 0o666))
	ill("permissions", state[0]+" (-rw-rw-rw-) can be written by others")
	r.must(os.Chmod(state[0], 0o600))
	ill("docroot", "no such file or directory", "--docroot", filepath.Join(dir, "none"))
	other := front.FreeAddress()
	ill("notifier", "it runs, but not for "+r.base+" at "+other, "--listen", other)
	ill("notifier", "but none can be asked at the state", "--state", filepath.Join(dir, "other.db"))
	if os.Geteuid() == 0 {
		r.must(os.Chown(filepath.Dir(state[0]), 1, 1))
		ill("state", "does not belong to the owner of its folder")
		r.must(os.Chown(filepath.Dir(state[0]), 0, 0))
	}
	well("all of this")
	r.notifier.stop()
	r.notifier = start(t, nil, "notifier", "--config", parley, "--trust-docroot", "--preset", "high")
	r.until("doctor says that the docroot is trusted", func() bool {
		found, _ := doctor()
		return slices.ContainsFunc(found.Checks, func(d diagnosis) bool {
			return d.Check == "evidence" && d.State == "ok" && strings.Contains(d.Says, "the docroot is trusted")
		})
	})
	r.notifier.stop()
	ill("notifier", "none is running, but the web server forwards "+r.base)
}
