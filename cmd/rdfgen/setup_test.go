package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/machine"
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
	m.must(os.MkdirAll(filepath.Dir(path), 0o755))
	m.must(os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", m.dir)), 0o644))
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
	var out, errs strings.Builder
	args := append([]string{"setup", "--root", m.dir, "--base", base, "--yes"}, flags...)
	if docroot != "" {
		args = append(args, "--docroot", filepath.Join(m.dir, docroot))
	}
	if got := command.Main(m.t.Context(), rdfgen, args, nil, &out, &errs); got != code {
		m.t.Errorf("rdfgen %q: exit code %d, want %d\n%s%s", args, got, code, out.String(), errs.String())
	}
	return strings.ReplaceAll(out.String()+errs.String(), m.dir, "DIR")
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
	if out := newMachineRoot(t).setup(2, "", "https://www.example.org/"); !strings.Contains(out, "--docroot is required") {
		t.Errorf("without a docroot: %s", out)
	}
}

const nginxConf = "error_log DIR/error.log;\npid DIR/pid;\nevents {}\nhttp {\n\taccess_log off;\n\tinclude conf.d/*.conf;\n\tinclude sites/*;\n}\n"

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
	if conf := m.read("etc/nginx/parley-www.example.org-blog.conf"); !strings.Contains(conf, "location = /blog/.well-known/parley {\n    proxy_pass http://127.0.0.1:8641;") {
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
	// Locations written by hand stay.
	m.write("etc/nginx/sites/byhand", "server { listen 127.0.0.1:3; server_name hand.example; root DIR/blog; location /parley/ { proxy_pass http://127.0.0.1:8639; } }\n")
	byHand := m.read("etc/nginx/sites/byhand")
	if out := m.setup(0, "blog", "https://hand.example/"); !strings.Contains(out, "has locations for https://hand.example/ already") || m.read("etc/nginx/sites/byhand") != byHand || m.read("etc/nginx/parley-hand.example.conf") != "" {
		t.Errorf("locations by hand: %s", out)
	}
	if out := m.setup(0, "www", "https://other.example/"); !strings.Contains(out, "No server block") || !strings.Contains(out, "location = /robots.rdf {") {
		t.Errorf("a host that nginx does not serve: %s", out)
	}
}

// A change of any form is shown as patch understands it.
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

// What nginx does not accept is taken back.
func TestSetupIsTakenBack(t *testing.T) {
	machine.Tool(t, "nginx")
	m := newMachineRoot(t)
	m.write("etc/nginx/nginx.conf", nginxConf)
	const site = "server {\n\tlisten 127.0.0.1:1;\n\tserver_name www.example.org;\n\troot DIR/www;\n\tlocation = /robots.rdf { return 404; }\n}\n"
	m.write("etc/nginx/sites/site", site)
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, "all files are as before: nginx -t: ") || !strings.Contains(out, "duplicate location") {
		t.Errorf("%s", out)
	}
	if m.read("etc/nginx/sites/site") != site || m.read("etc/parley.conf") != "" || m.read("etc/nginx/parley-www.example.org.conf") != "" {
		t.Errorf("files are left behind:\n%s%s", m.read("etc/nginx/sites/site"), m.read("etc/parley.conf"))
	}
	m.write("etc/nginx/sites/site", "server { server_name www.example.org; root DIR/www; listen 127.0.0.1:1; nonsense on; }\n")
	if out := m.setup(1, "www", "https://www.example.org/"); !strings.Contains(out, "unknown directive") || m.read("etc/parley.conf") != "" {
		t.Errorf("%s", out)
	}
}

func TestSetupWithOtherWebServers(t *testing.T) {
	for file, want := range map[string]string{
		"etc/apache2/apache2.conf": "ProxyPass /docs/parley/            http://127.0.0.1:8639/docs/parley/ upgrade=websocket",
		"etc/caddy/Caddyfile":      "reverse_proxy @parley 127.0.0.1:8639",
		"etc/nothing":              "location = /docs/.well-known/parley {",
	} {
		m := newMachineRoot(t)
		m.write(file, "")
		m.write("lib/systemd/system/parley-notifier.service", "")
		if out := m.setup(0, "www", "https://www.example.org/docs/"); !strings.Contains(out, want) || !strings.Contains(out, "systemctl restart parley-notifier") || strings.Contains(out, "-s reload") {
			t.Errorf("%s: %s", file, out)
		}
	}
}
