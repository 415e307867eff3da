package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// A machineRoot is a directory with the files that setup reads and writes.
type machineRoot struct {
	t   *testing.T
	dir string
}

func newMachineRoot(t *testing.T) *machineRoot {
	m := &machineRoot{t, t.TempDir()}
	for _, dir := range []string{"www", "blog", "etc"} {
		m.must(os.Mkdir(filepath.Join(m.dir, dir), 0o755))
	}
	return m
}

func (m *machineRoot) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machineRoot) write(path, text string) {
	m.t.Helper()
	path = filepath.Join(m.dir, path)
	must.Write(m.t, path, strings.ReplaceAll(text, "DIR", m.dir))
}

// read returns a file, with the name of the directory replaced; empty if there is none.
func (m *machineRoot) read(path string) string {
	b, err := os.ReadFile(filepath.Join(m.dir, path))
	if !os.IsNotExist(err) {
		m.must(err)
	}
	return strings.ReplaceAll(string(b), m.dir, "DIR")
}

func (m *machineRoot) setup(code int, docroot, base string, flags ...string) string {
	m.t.Helper()
	args := append([]string{"setup", "--root", m.dir, "--base", base, "--yes"}, flags...)
	if docroot != "" {
		args = append(args, "--docroot", filepath.Join(m.dir, docroot))
	}
	out, errs := ran(m.t, rdfgen, code, args...)
	return strings.ReplaceAll(out+errs, m.dir, "DIR")
}

func TestSetupWritesParleyConf(t *testing.T) {
	const own = "base           https://www.example.org/\ndocroot        DIR/www\n"
	const first = "# The sites of this machine, for rdfgen and notifier; \"rdfgen --help-all\" and \"notifier --help-all\" list all options.\n"
	for name, c := range map[string]struct{ before, after string }{
		"no file":          {"", first + own},
		"the package's":    {"# base https://www.example.org/\n# no newline", "# base https://www.example.org/\n# no newline\n" + own},
		"settings for all": {"retention 30d\n", "retention 30d\n" + own},
		"an address":       {"listen 127.0.0.1:9\n", "listen 127.0.0.1:9\n" + own},
		"the same site":    {"base https://WWW.example.org\ndocroot DIR/www/\nheal\n", "base https://WWW.example.org\ndocroot DIR/www/\nheal\n"},
		"the same site, in a section": {"docroot DIR/www\n[a]\nbase https://a.example/\n[b]\nbase https://www.example.org/\n",
			"docroot DIR/www\n[a]\nbase https://a.example/\n[b]\nbase https://www.example.org/\n"},
		"another site": {"# mine\nheal\nbase https://blog.example.org/\ndocroot DIR/blog\n",
			"# mine\n[blog.example.org]\nheal\nbase https://blog.example.org/\ndocroot DIR/blog\n\n[www.example.org]\n" + own + "listen         127.0.0.1:8641\n"},
		"a base for all": {"base https://a.example/\nheal\n[b]\ndocroot DIR/blog\n[ www.example.org ]\nbase https://c.example/\n",
			"base https://a.example/\nheal\n[b]\ndocroot DIR/blog\n[ www.example.org ]\nbase https://c.example/\n\n[www.example.org-2]\n" + own + "listen         127.0.0.1:8641\n"},
		"other sites": {"heal\n[a]\nbase https://a.example/\n[b]\nbase https://b.example/\nlisten 127.0.0.1:8641\n",
			"heal\n[a]\nbase https://a.example/\n[b]\nbase https://b.example/\nlisten 127.0.0.1:8641\n\n[www.example.org]\n" + own + "listen         127.0.0.1:8642\n"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachineRoot(t)
			if c.before != "" {
				m.write("etc/parley.conf", c.before)
			}
			m.setup(0, "www", "https://www.example.org")
			if got := m.read("etc/parley.conf"); got != c.after {
				t.Errorf("parley.conf is\n%s\nwant\n%s", got, c.after)
			}
			if out := m.setup(0, "www", "https://www.example.org/"); !strings.Contains(out, "Nothing to do") || m.read("etc/parley.conf") != c.after {
				t.Errorf("second run: %s", out)
			}
		})
	}
	m := newMachineRoot(t)
	m.write("etc/parley.conf", "base https://www.example.org/\ndocroot DIR/blog\n")
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, `with docroot "DIR/blog"`) {
		t.Errorf("another docroot: %s", out)
	}
	m.write("etc/parley.conf", "base https://www.example.org/\ndocroot DIR/www\nlisten 127.0.0.1:9\n")
	if out := m.setup(1, "www", "https://www.example.org/", "--listen", "127.0.0.1:10"); !strings.Contains(out, "with listen 127.0.0.1:9:") {
		t.Errorf("another address: %s", out)
	}
	m.write("etc/parley.conf", "base http://www.example.org/\ndocroot DIR/www\n")
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, "with base http://www.example.org/: change it there") {
		t.Errorf("another scheme: %s", out)
	}
	m.write("a # b/index.html", "")
	if out := m.setup(1, "a # b", "https://b.example/"); !strings.Contains(out, "rename the directory") {
		t.Errorf("a docroot that is no value: %s", out)
	}
	m.must(os.Remove(filepath.Join(m.dir, "etc/parley.conf")))
	m.must(os.Symlink(os.DevNull, filepath.Join(m.dir, "etc/parley.conf")))
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, "is no file") {
		t.Errorf("a link to a device: %s", out)
	}
	if out := newMachineRoot(t).setup(2, "", "https://www.example.org/"); !strings.Contains(out, "--docroot is required") {
		t.Errorf("without a docroot: %s", out)
	}
	m.write("mine.conf", "yes\n")
	if out := m.setup(2, "www", "https://www.example.org/", "--config", filepath.Join(m.dir, "mine.conf")); !strings.Contains(out, "--config DIR/mine.conf: setup writes etc/parley.conf") {
		t.Errorf("with a file of its own: %s", out)
	}
}

// A script that forgets --yes fails, and finds nothing changed.
func TestSetupWithoutATerminal(t *testing.T) {
	m := newMachineRoot(t)
	if out := m.setup(1, "www", "https://www.example.org/", "--yes=false"); !strings.Contains(out, "+base           https://www.example.org/\n") ||
		!strings.Contains(out, "rdfgen setup: nothing was written: there is no terminal") || m.read("etc/parley.conf") != "" {
		t.Errorf("%s\n%s", out, m.read("etc/parley.conf"))
	}
}

// Without paths of its own, nginx -t would give the directories of this machine's nginx to another user.
const nginxConf = "error_log DIR/error.log;\npid DIR/pid;\nevents {}\nhttp {\n\taccess_log off;\n" +
	"\tclient_body_temp_path DIR/b;\n\tproxy_temp_path DIR/p;\n\tfastcgi_temp_path DIR/f;\n\tuwsgi_temp_path DIR/u;\n\tscgi_temp_path DIR/s;\n" +
	"\tinclude conf.d/*.conf;\n\tinclude sites/*;\n}\n"

func TestSetupFindsTheServerBlock(t *testing.T) {
	machine.Tool(t, "nginx")
	m := newMachineRoot(t)
	m.write("etc/nginx/nginx.conf", nginxConf)
	m.write("etc/nginx/conf.d/a.conf", "map $uri $x { default \"a { ; b\"; \"~^/(a|b){2}$\" '}'; }\nlog_format f '${remote_addr} # no comment';\n")
	m.write("etc/nginx/sites/redirect", "server { listen 127.0.0.1:1; server_name www.example.org; return 301 https://www.example.org$request_uri; }\n")
	m.write("etc/nginx/sites/site", `
# server_name www.example.org; root DIR/www;
server {
    listen 127.0.0.1:2;
    root DIR/blog;
    server_name blog.example.org;
}
server {
    listen 127.0.0.1:2;
    server_name example.org *.example.org;
    location / { root "DIR/www"; index index.html; }
}
`)
	redirect := m.read("etc/nginx/sites/redirect")
	out := m.setup(0, "", "https://www.example.org/") // the docroot is that of nginx
	if !strings.Contains(m.read("etc/nginx/sites/site"), "    server_name example.org *.example.org;\n    include parley-www.example.org.conf;\n") ||
		strings.Count(m.read("etc/nginx/sites/site"), "include") != 1 || m.read("etc/nginx/sites/redirect") != redirect {
		t.Errorf("%s\n%s", out, m.read("etc/nginx/sites/site"))
	}
	if conf := m.read("etc/nginx/parley-www.example.org.conf"); !strings.Contains(conf, "location ^~ /parley/ {\n    proxy_pass http://127.0.0.1:8639;") {
		t.Errorf("locations:\n%s", conf)
	}
	// A site below a path, of the same server block.
	m.setup(0, "blog", "https://www.example.org/blog/")
	if conf := m.read("etc/nginx/parley-www.example.org_blog.conf"); !strings.Contains(conf, "location = /blog/.well-known/parley {\n    proxy_pass http://127.0.0.1:8641;") {
		t.Errorf("locations:\n%s", conf)
	}
	if site := m.read("etc/nginx/sites/site"); strings.Count(site, "include parley-www.example.org") != 2 {
		t.Errorf("two sites of a server block:\n%s", site)
	}
	for _, base := range []string{"https://www.example.org/", "https://www.example.org/blog/"} {
		if out := m.setup(0, map[bool]string{true: "blog", false: "www"}[strings.HasSuffix(base, "blog/")], base); !strings.Contains(out, "Nothing to do") {
			t.Errorf("second run for %s: %s", base, out)
		}
	}
	if out := m.setup(2, "", "https://www.example.org/other/"); !strings.Contains(out, "--docroot is required") {
		t.Errorf("a site below a path, whose docroot nginx may have elsewhere: %s", out)
	}
	// Locations written by hand stay.
	m.write("etc/nginx/sites/byhand", "server { listen 127.0.0.1:3; server_name hand.example; root DIR/blog; location /parley/ { proxy_pass http://127.0.0.1:8639; } }\n")
	byHand := m.read("etc/nginx/sites/byhand")
	if out := m.setup(0, "blog", "https://hand.example/"); !strings.Contains(out, "forwards requests for https://hand.example/ already") || m.read("etc/nginx/sites/byhand") != byHand || m.read("etc/nginx/parley-hand.example.conf") != "" {
		t.Errorf("locations by hand: %s", out)
	}
	if out := m.setup(0, "www", "https://other.example/"); !strings.Contains(out, "No server block") || !strings.Contains(out, "location = /robots.rdf {") {
		t.Errorf("a host that nginx does not serve: %s", out)
	}
	// A site at a port of its own is not that of the default server at another port.
	const atPort80 = "server { listen 127.0.0.1:80 default_server; root DIR/www; }\n"
	m.write("etc/nginx/sites/ports", atPort80+"server { listen [::1]:8080; root DIR/www; }\n")
	if out := m.setup(0, "www", "http://localhost:8080/"); m.read("etc/nginx/sites/ports") != atPort80+"server {\n    include parley-localhost+8080.conf; listen [::1]:8080; root DIR/www; }\n" {
		t.Errorf("a site at port 8080: %s\n%s", out, m.read("etc/nginx/sites/ports"))
	}
}

// A change of any form is shown as patch understands it.
// The files of an image are read below its root, where its web server will find them.
func TestSetupBelowARoot(t *testing.T) {
	for name, c := range map[string]struct{ conf, include, text string }{
		"nginx":  {"etc/nginx/nginx.conf", "events {} http { include /etc/nginx/sites/*; }\n", "server { server_name www.example.org; root DIR/www; }\n"},
		"Apache": {"etc/apache2/apache2.conf", "Include /etc/apache2/sites/\n", "<VirtualHost *:443>\nServerName www.example.org\nDocumentRoot DIR/www\n</VirtualHost>\n"},
	} {
		m := newMachineRoot(t)
		m.write(c.conf, c.include)
		m.write(filepath.Join(filepath.Dir(c.conf), "sites", "site"), c.text)
		t.Setenv("PATH", m.dir) // without the programs of this machine
		if name == "Apache" {
			m.write("apachectl", "#!/bin/sh\n")
			m.must(os.Chmod(filepath.Join(m.dir, "apachectl"), 0o755))
		}
		m.setup(0, "", "https://www.example.org/")
		if site := m.read(filepath.Join(filepath.Dir(c.conf), "sites", "site")); strings.Count(site, "parley-www.example.org.conf") != 1 {
			t.Errorf("%s: %s", name, site)
		}
		m.setup(0, "blog", "https://other.example/")
		if out := m.setup(0, "blog", "https://other.example/"); !strings.Contains(out, "Add there:") || !strings.Contains(out, "Nothing to do in other files") {
			t.Errorf("%s, a second time without a place for the lines: %s", name, out)
		}
	}
}

func TestSetupShowsADiff(t *testing.T) {
	patch := machine.Tool(t, "patch")
	m := newMachineRoot(t)
	m.write("etc/nginx/nginx.conf", nginxConf)
	m.write("etc/nginx/sites/site", "# one line, without an end\nserver { listen 127.0.0.1:1; server_name www.example.org; root DIR/www; }")
	m.write("etc/parley.conf", "# a\n# b\n# c\n# d\nheal\nbase https://blog.example.org/\n# e\n# f\n# g\n# h\n# i\n")
	before := filepath.Join(t.TempDir(), "before")
	m.must(os.CopyFS(before, os.DirFS(m.dir)))
	out := m.setup(0, "www", "https://www.example.org/")
	diff, _, _ := strings.Cut(out, "Written.")
	diff = strings.ReplaceAll(strings.ReplaceAll(diff, "--- DIR/", "--- "), "+++ DIR/", "+++ ")
	cmd := exec.Command(patch, "-p0", "-d", before)
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(diff, "DIR", m.dir))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, said, out)
	}
	for _, file := range []string{"etc/parley.conf", "etc/nginx/sites/site", "etc/nginx/parley-www.example.org.conf"} {
		got, err := os.ReadFile(filepath.Join(before, file))
		if want := m.read(file); err != nil || strings.ReplaceAll(string(got), m.dir, "DIR") != want {
			t.Errorf("%s: %v: the diff makes\n%s\nof it, but it is\n%s", file, err, got, want)
		}
	}
}

// A server block is found however it is written, and only where nginx reads it.
func TestSetupReadsNginxAsItDoes(t *testing.T) {
	machine.Tool(t, "nginx")
	for name, site := range map[string]string{
		"a regular expression":      "server { listen 127.0.0.1:1; server_name \"~^(?<sub>w{3})\\.EXAMPLE\\.org$\"; root DIR/www; }",
		"any top-level domain":      "server { listen 127.0.0.1:1; server_name www.example.*; root DIR/www; location = / { root DIR/blog; } }",
		"quotes":                    "server { listen [::1]:1; server_name 'www.example.org'; root \"DIR/\\\"a\\\" b\"; }",
		"a snippet":                 "server { listen 127.0.0.1:1; include snippet; }",
		"an application":            "server { listen 127.0.0.1:1; server_name www.example.org; root DIR/www; location / { proxy_pass http://127.0.0.1:1; } }",
		"a location of robots.rdf":  "server { listen 127.0.0.1:1; server_name www.example.org; root DIR/www; location = /robots.rdf { types { application/rdf+xml rdf; } } }",
		"a comment after the names": "server { listen 127.0.0.1:1; server_name www.example.org; # \" {\n root DIR/www; }",
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachineRoot(t)
			docroot := "www"
			if name == "quotes" {
				docroot = `"a" b`
			}
			m.write(docroot+"/index.html", "")
			m.write("etc/nginx/nginx.conf", strings.Replace(nginxConf, "include sites/*;", "include sites/*; include sites/s*;", 1))
			m.write("etc/nginx/snippet", "server_name www.example.org; root DIR/www;")
			m.write("etc/nginx/sites/.site.swp", site)
			m.write("available", site)
			m.must(os.Chmod(filepath.Join(m.dir, "available"), 0o640))
			m.must(os.Symlink("../../../available", filepath.Join(m.dir, "etc/nginx/sites/site")))
			swp := m.read("etc/nginx/sites/.site.swp")
			m.setup(0, "", "https://www.example.org/")
			if !strings.Contains(m.read("etc/parley.conf"), "docroot        DIR/"+docroot+"\n") || strings.Count(m.read("available"), "\n    include parley-www.example.org.conf;") != 1 || m.read("etc/nginx/sites/.site.swp") != swp {
				t.Errorf("%s%s", m.read("etc/parley.conf"), m.read("available"))
			}
			if st, err := os.Lstat(filepath.Join(m.dir, "available")); err != nil || st.Mode() != 0o640 {
				t.Errorf("%v, %v", st.Mode(), err)
			}
			if out := m.setup(0, "", "https://www.example.org/"); !strings.Contains(out, "Nothing to do") {
				t.Errorf("second run: %s", out)
			}
		})
	}
}

// Each site below a path has names of its own, and nginx compares paths without escapes.
func TestSetupOfSitesBelowPaths(t *testing.T) {
	machine.Tool(t, "nginx")
	m := newMachineRoot(t)
	m.write("etc/nginx/nginx.conf", nginxConf)
	m.write("etc/nginx/sites/site", "server { listen 127.0.0.1:1; server_name x.example; location / { proxy_pass http://127.0.0.1:1; } location /a/ { alias DIR/blog/; } }\n")
	for i, path := range []string{"a-b/", "a/b/", "a%20b;c/"} {
		m.setup(0, "www", "https://x.example/"+path)
		if n := strings.Count(m.read("etc/nginx/sites/site"), "include"); n != i+1 {
			t.Errorf("%d includes:\n%s", n, m.read("etc/nginx/sites/site"))
		}
	}
	conf := m.read("etc/parley.conf")
	for _, name := range []string{"[x.example-a-b]", "[x.example-a-b-2]", "[x.example-a-20b-c]"} {
		if strings.Count(conf, name) != 1 {
			t.Errorf("%s in\n%s", name, conf)
		}
	}
	if lines := m.read("etc/nginx/parley-x.example_a%2520b%3Bc.conf"); !strings.Contains(lines, `location ^~ "/a b;c/parley/" {`) {
		t.Errorf("locations:\n%s", lines)
	}
}

// What nginx does not accept is not written.
func TestSetupAsksNginxFirst(t *testing.T) {
	nginx := machine.Tool(t, "nginx")
	m := newMachineRoot(t)
	m.write("etc/nginx/nginx.conf", nginxConf)
	const site = "server {\n\tlisten 127.0.0.1:1;\n\tserver_name www.example.org;\n\troot DIR/www;\n\tlocation = /.well-known/parley { return 404; }\n}\n"
	m.write("etc/nginx/sites/site", site)

	// It would be valid at every moment: a tool in nginx's place finds the files as they were.
	m.write("bin/nginx", "#!/bin/sh\ncp -r DIR/etc/nginx DIR/seen\nexec "+nginx+" \"$@\"\n")
	m.must(os.Chmod(filepath.Join(m.dir, "bin/nginx"), 0o755))
	t.Setenv("PATH", filepath.Join(m.dir, "bin")+":"+os.Getenv("PATH"))
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, "nothing was written: nginx -t: ") ||
		!strings.Contains(out, `duplicate location "/.well-known/parley" in "location = /.well-known/parley { return 404; }"`) {
		t.Errorf("%s", out)
	}
	for _, file := range []string{"seen/sites/site", "etc/nginx/sites/site"} {
		if m.read(file) != site {
			t.Errorf("%s:\n%s", file, m.read(file))
		}
	}
	if left, err := filepath.Glob(filepath.Join(m.dir, "etc/nginx/.*")); err != nil || len(left) > 0 || m.read("etc/parley.conf") != "" || m.read("etc/nginx/parley-www.example.org.conf") != "" {
		t.Errorf("files are left behind: %v, %v", left, err)
	}
	m.write("etc/nginx/sites/site", "server { server_name www.example.org; root DIR/www; listen 127.0.0.1:1; nonsense on; }\n")
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, "unknown directive") || m.read("etc/parley.conf") != "" {
		t.Errorf("%s", out)
	}

	// nginx takes its time, and the file is edited meanwhile.
	m.write("etc/nginx/sites/site", "server { server_name www.example.org; root DIR/www; listen 127.0.0.1:1; }\n")
	m.write("bin/nginx", "#!/bin/sh\necho '# edited' >> DIR/etc/nginx/sites/site\n")
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, "changed meanwhile") || !strings.HasSuffix(m.read("etc/nginx/sites/site"), "# edited\n") {
		t.Errorf("%s", out)
	}
}

// Without a package, setup writes the unit of the notifier, and in any case what a docroot in a home needs.
func TestSetupWritesUnit(t *testing.T) {
	const dir = "etc/systemd/system/"
	const unit, more = dir + "parley-notifier.service", dir + "parley-notifier.service.d/home.conf"
	m := newMachineRoot(t)
	m.must(os.MkdirAll(filepath.Join(m.dir, dir), 0o755))
	m.write("home/alice/www/index.html", "")
	m.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nnginx:x:101:101::/:/sbin/nologin\n")
	if out := m.setup(0, "www", "https://www.example.org/"); !strings.Contains(out, "needs the notifier in /usr/local/bin") || !strings.Contains(out, "notifier --config DIR/etc/parley.conf") || m.read(unit) != "" {
		t.Errorf("without a notifier: %s", out)
	}
	m.write("usr/local/bin/notifier", "")
	out := m.setup(0, "www", "https://www.example.org/")
	for _, want := range []string{"ExecStart=/usr/local/bin/notifier --config /etc/parley.conf\n", "User=nginx\n", "StateDirectory=parley\n", "ProtectHome=yes\n"} {
		if !strings.Contains(out, "\n+"+want) || !strings.Contains(m.read(unit), "\n"+want) {
			t.Errorf("the unit, or its diff, has no %q:\n%s", want, out)
		}
	}
	if !strings.Contains(out, "systemctl enable parley-notifier") || m.read(more) != "" {
		t.Errorf("setup: %s", out)
	}
	m.setup(0, "home/alice/www", "https://alice.example.org/")
	if !strings.Contains(m.read(more), "[Service]\nProtectHome=read-only\n") {
		t.Errorf("for a docroot below /home: %q", m.read(more))
	}
	m.write(unit, "# mine\n")
	m.write(more, "# mine\n")
	if out := m.setup(0, "home/alice/www", "https://alice.example.org/"); !strings.Contains(out, "Nothing to do") || m.read(unit) != "# mine\n" || m.read(more) != "# mine\n" {
		t.Errorf("with files of a person: %s", out)
	}

	m = newMachineRoot(t)
	m.must(os.MkdirAll(filepath.Join(m.dir, dir), 0o755))
	m.write("usr/lib/systemd/system/parley-notifier.service", "# the package's\n")
	if out := m.setup(0, "www", "https://www.example.org/"); m.read(unit) != "" || !strings.Contains(out, "systemctl enable parley-notifier") {
		t.Errorf("with a package: %s", out)
	}
}

// In the files of Apache and Caddy setup finds the block of the site, includes what is forwarded there, and finds nothing to do again.
// With blocks of other sites only, it prints what to add.
func TestSetupWithOtherWebServers(t *testing.T) {
	for name, c := range map[string]struct{ conf, file, text, want, forwards string }{
		"Apache": {"etc/apache2/apache2.conf", "etc/apache2/sites-enabled/site.conf", `# <VirtualHost *:80>
<VirtualHost *:80>
    ServerName www.example.org
    Redirect permanent / https://www.example.org/
</VirtualHost>
<VirtualHost *:443>
    DocumentRoot "DIR/blog"
    ServerName blog.example.org
</VirtualHost>
<virtualhost 192.0.2.1:443 \
    [::1]:443>
    ServerName https://example.org:443
    ServerAlias *.example.net \
        www.example.org
    Redirect 301 /old-home /
    DocumentRoot "DIR/www" # of the site
</virtualhost>
<Macro Site $name>
<VirtualHost *:443>
    ServerName www.example.org
    DocumentRoot "DIR/www"
</VirtualHost>
</Macro>
`, `    [::1]:443>
    Include "DIR/etc/apache2/parley-www.example.org.conf"
    ServerName`, `ProxyPass "/parley/"            "http://127.0.0.1:8639/parley/" upgrade=websocket`},
		"Caddy": {"etc/caddy/Caddyfile", "etc/caddy/Caddyfile", `{
	email admin@example.org
}
(all) {
	root * DIR/www
}
blog.example.org {
	root * DIR/blog
}
example.org,
https://www.example.org {
	root * DIR/www
	redir /old /new
	handle_errors {
		root * DIR/blog
	}
	try_files {path} /index.html
	file_server
}
`, `https://www.example.org {
    import "DIR/etc/caddy/parley-www.example.org.conf"
	root * DIR/www`, `handle @parley-www.example.org {
	rewrite * {http.request.orig_uri}
	reverse_proxy 127.0.0.1:8639`},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachineRoot(t)
			m.write(c.conf, "ServerRoot DIR/etc/apache2\nInclude sites-enabled/\nIncludeOptional sites-enabled/*.conf\n")
			m.write(c.file, c.text)
			m.write(filepath.Join(filepath.Dir(c.file), "kept", "old.conf"), "<VirtualHost *:443>\n") // no file that a pattern matches
			for _, program := range []string{"apachectl", "caddy"} {                                  // the real ones are asked in TestOtherWebServersAccept
				m.write("bin/"+program, "#!/bin/sh\n")
				m.must(os.Chmod(filepath.Join(m.dir, "bin", program), 0o755))
			}
			t.Setenv("PATH", filepath.Join(m.dir, "bin"))
			m.setup(0, "", "https://www.example.org/")
			added := filepath.Join(filepath.Dir(c.conf), "parley-www.example.org.conf")
			if got := m.read(c.file); strings.Count(got, "parley") != 1 || !strings.Contains(got, c.want) || !strings.Contains(m.read(added), c.forwards) {
				t.Errorf("%s\n%s", got, m.read(added))
			}
			if !strings.Contains(m.read("etc/parley.conf"), "docroot        DIR/www\n") {
				t.Error(m.read("etc/parley.conf"))
			}
			if again := m.setup(0, "www", "https://www.example.org/"); !strings.Contains(again, "Nothing to do") {
				t.Error(again)
			}
			if out := m.setup(0, "etc", "https://elsewhere.example/"); !strings.Contains(out, "of "+name+" was found for https://elsewhere.example/") || strings.Contains(out, "reload") || strings.Contains(out, "graceful") {
				t.Error(out)
			}
		})
	}
	m := newMachineRoot(t)
	m.write("lib/systemd/system/parley-notifier.service", "")
	if out := m.setup(0, "www", "https://www.example.org/my%20docs/"); !strings.Contains(out, `location = "/my docs/.well-known/parley" {`) || !strings.Contains(out, "systemctl restart parley-notifier") || strings.Contains(out, "-s reload") {
		t.Error(out)
	}
}

// Apache and Caddy themselves accept what is written; what they refuse is taken back.
func TestOtherWebServersAccept(t *testing.T) {
	for program, c := range map[string]struct{ conf, text, broken string }{
		"apachectl": {"etc/apache2/apache2.conf", `ServerRoot "DIR/etc/apache2"
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
Listen 127.0.0.1:8088
ErrorLog DIR/error.log
PidFile DIR/pid
ServerName www.example.org
<VirtualHost *:8088>
    DocumentRoot "DIR/www"
</VirtualHost>
`, "LoadModule proxy_"},
		"caddy": {"etc/caddy/Caddyfile", "http://www.example.org:8088 {\n\troot * DIR/www\n\tfile_server\n}\n", "root *"},
	} {
		t.Run(program, func(t *testing.T) {
			machine.Tool(t, program)
			m := newMachineRoot(t)
			m.write(c.conf, c.text)
			if out := m.setup(0, "www", "http://www.example.org:8088/my%20docs/"); !strings.Contains(out, "Written.") || strings.Count(m.read(c.conf), "parley") != 1 {
				t.Error(out, m.read(c.conf))
			}
			m = newMachineRoot(t)
			broken := strings.ReplaceAll(c.text, c.broken, "# "+c.broken)
			if program == "caddy" {
				broken = strings.ReplaceAll(c.text, "file_server", "no_such_directive")
			}
			m.write(c.conf, broken)
			out := m.setup(1, "www", "http://www.example.org:8088/")
			if !strings.Contains(out, "all files are as before") || strings.Contains(m.read(c.conf), "parley") || m.read("etc/parley.conf") != "" || program == "apachectl" && !strings.Contains(out, "a2enmod proxy_http") {
				t.Error(out, m.read(c.conf))
			}
		})
	}
}
