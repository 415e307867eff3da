package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/front"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// A documented command is one that a page shows.
type documented struct {
	line, block int
	text        string // as a shell would read it
}

// key is the command with single spaces.
func (d documented) key() string { return strings.Join(strings.Fields(d.text), " ") }

var (
	cronLine = regexp.MustCompile(`^\*/5 \* \* \* \*\s+\S+\s+`)
	remark   = regexp.MustCompile(`\s+#(\s.*)?$|\s{5,}\S.*$`)
	foreign  = regexp.MustCompile(`^crawler (probe|crawl|run|follow) .*https://`)
	endless  = regexp.MustCompile(`^(notifier (--|\.\.\. )|crawler (run|follow) |crawler events .*--follow)`)
	abroad   = regexp.MustCompile(`(^|[\s=>'"@])/(bin|boot|dev|etc|home|lib|opt|root|run|srv|sbin|sys|usr|var)/|\b\d+\.\d+\.\d+\.\d+\b|://[^:/\s$]+|~|\b(apt|apt-get|dpkg|kill|pkill|mount|rm|sudo|ssh|systemctl)\s`)
)

// commandsOf returns the commands in the blocks of a page: lines that are indented by four spaces, or fenced. Sessions with
// a "$" before each command are left out of the pages that are transcripts.
func commandsOf(t *testing.T, page string, transcript bool) (list []documented) {
	t.Helper()
	b := must.Get(os.ReadFile("../../" + page))
	n, block, fenced, open, skip, more := 0, 0, false, false, false, false
	for line := range strings.Lines(string(b)) {
		n++
		code, inside := strings.CutPrefix(line, indent)
		if strings.HasPrefix(line, "```") {
			fenced, open = !fenced, false
			continue
		}
		if fenced {
			code, inside = line, true
		}
		code = strings.TrimSpace(code)
		if blank := strings.TrimSpace(line) == ""; !inside || blank {
			open, more = open && blank && transcript && skip, false // a session may print empty lines
			continue
		}
		if !open {
			open, block = true, block+1
			skip = transcript && strings.HasPrefix(code, "$ ") || slices.ContainsFunc(noCommands, func(s string) bool { return strings.HasPrefix(code, s) })
		}
		if skip {
			continue
		}
		code = remark.ReplaceAllString(code, "")
		goesOn := strings.HasSuffix(code, `\`) || strings.HasSuffix(code, "|")
		code = cronLine.ReplaceAllString(strings.TrimPrefix(strings.TrimSuffix(code, `\`), "$ "), "")
		if more {
			list[len(list)-1].text += " " + code
		} else {
			list = append(list, documented{n, block, code})
		}
		more = goesOn
	}
	return list
}

// Every command that the documentation shows is run: in a session for each page, or elsewhere.
func TestDocumentedCommands(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"README.md", "docs/*.md", "packaging/README.md", "examples/*/README.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages: %v", pattern, len(found), err)
		}
		for _, p := range found {
			pages = append(pages, strings.TrimPrefix(p, "../../"))
		}
	}
	for page, list := range elsewhere {
		if !slices.Contains(pages, page) {
			t.Errorf("there is no page %s", page)
		}
		for command, how := range list {
			if !runs(t, how) {
				t.Errorf("%s: %s: %q is no test", page, command, how)
			}
		}
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			var list []documented
			known := maps.Clone(elsewhere[page])
			for _, d := range commandsOf(t, page, page == "docs/day-one.md" || page == "docs/start.md") {
				if foreign.MatchString(d.text) && !strings.Contains(d.text, " --contact ") {
					t.Errorf("%s:%d: %s is refused without --contact, if the site is on another machine", page, d.line, d.text)
				}
				if _, ok := elsewhere[page][d.key()]; !ok {
					list = append(list, d)
				}
				delete(known, d.key())
			}
			for command := range known {
				t.Errorf("the page has no %s any more", command)
			}
			if len(list) > 0 {
				newSession(t, page).run(list)
			}
		})
	}
}

// runs reports whether a test or a script exists.
func runs(t *testing.T, how string) bool {
	dir, test, ok := strings.Cut(how, " ")
	if strings.HasPrefix(how, "not run: ") {
		return true
	} else if !ok {
		return isFile("../../" + how)
	}
	files := must.Get(filepath.Glob("../../" + dir + "/*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(b), "\nfunc "+test+"(")
	})
}

// A session is a machine with a site, for the commands of one page.
type session struct {
	*rig
	page, dir  string
	repository string
	listener   string // the program in Python that the page shows
	to         *strings.Replacer
	running    map[string]*program // by program and part, such as "crawler run"
}

func newSession(t *testing.T, page string) *session {
	for _, tool := range []string{"bash", "curl"} {
		machine.Tool(t, tool)
	}
	s := &session{rig: newRig(t), page: page, running: map[string]*program{}}
	s.dir = filepath.Dir(s.rig.root)
	in := func(name string) string { return filepath.Join(s.dir, name) }
	for _, name := range []string{"etc", "log", "lib", "bin", "new"} {
		s.must(os.Mkdir(in(name), 0o700))
	}
	for i, name := range []string{filepath.Base(s.rig.root), "html", "build", "build-monday", "build-tuesday"} {
		s.must(os.CopyFS(in(name), os.DirFS("../../examples/quickstart/site")))
		s.must(os.Mkdir(in(name)+"/news", 0o755))
		s.must(os.WriteFile(in(name)+"/news/index.html", fmt.Appendf(nil, "<title>News</title><p>All news, in version 1.%d.0.", i), 0o644))
	}
	must.Write(s.t, in("log/access.log"), `192.0.2.7 - - [21/Nov/2026:10:00:00 +0000] "GET /news.html HTTP/1.1" 200 512 "-" "ExampleBot/1.0"`+"\n")
	s.must(os.WriteFile(in("callers"), []byte("NiceBot a-token-for-the-docs agents\n"), 0o600))
	s.must(os.WriteFile(in("bin/curl"), fmt.Appendf(nil, "#!/bin/sh\nexec %s --fail-with-body \"$@\"\n", machine.Tool(t, "curl")), 0o755))

	search := httptest.NewServer(&engine{})
	t.Cleanup(search.Close)
	s.repository = must.Get(filepath.Abs("../.."))
	docroot, base, own, git := s.rig.root, s.base, "http://"+s.sidecar+"/", "/usr/share/doc/git-doc"
	switch page {
	case "docs/builds.md": // its site has no notifier
		machine.Tool(t, "rsync")
		docroot = in("html")
		web := httptest.NewServer(http.FileServer(http.Dir(docroot)))
		t.Cleanup(web.Close)
		base = web.URL + "/"
	case "docs/freshness.md":
		t.Setenv("PARLEY_INTO", "crawl")
	case "docs/schemes.md":
		git = in("git-doc")
		s.must(os.Mkdir(git, 0o755))
		for name, b := range machine.Pages(t, machine.GitDoc(t)) { // a few are enough
			if name = filepath.Base(name); strings.HasPrefix(name, "git-a") || strings.HasPrefix(name, "git-r") {
				s.must(os.WriteFile(filepath.Join(git, name), b, 0o644))
			}
		}
		text := must.Get(os.ReadFile("../../" + page))
		s.listener = strings.ReplaceAll(regexp.MustCompile(`(?s)    import asyncio.*?asyncio\.run\(.*?\n`).FindString("\n"+string(text)), "\n"+indent, "\n")
		for _, tool := range []string{"openssl", "zstd", "zcat"} {
			machine.Tool(t, tool)
		}
	}
	s.to = strings.NewReplacer("https://www.example.org/", base, "https://www.example.org", strings.TrimSuffix(base, "/"), "deploy@www.example.org:/var/www/html", docroot,
		"/var/www/html", docroot, "/var/log/nginx", in("log"), "/etc/parley.conf", in("etc/parley.conf"), "/etc/parley.admin", in("etc/parley.admin"),
		"notifier ... ", "notifier --config "+in("etc/parley.conf")+" ", "crawler run ... ", "crawler run --into crawl/ ", "rdfgen doctor", "rdfgen doctor --config "+in("etc/parley.conf"),
		" bing", " "+search.URL+"/indexnow", " KEY", " 0123456789abcdef", " TOKEN", " a-token-for-the-docs",
		"$DIGEST", "sha-256=:$(openssl dgst -sha256 -binary minor.wasm | base64):", "go build", "go -C "+s.repository+" build", "-o minor.wasm", "-o "+in("minor.wasm"), "-o index.wasm", "-o "+in("index.wasm"), "2026-11-01", "2099-01-01", "/usr/share/doc/git-doc", git, "/tmp/state", in("state"),
		"http://127.0.0.1:8639/", own, "127.0.0.1:8640", front.FreeAddress(), "10.0.0.5:8640", front.FreeAddress(), "127.0.0.1:8642", front.FreeAddress(), "10.0.0.5:8642", front.FreeAddress(), " :8641", " "+front.FreeAddress(), "--domain org ", "--domain 127.0.0.1 ", "/mnt/crawl/exchange", in("exchange"))
	must.Write(s.t, in("sites.txt"), base+"\n")
	must.Write(s.t, in("etc/parley.conf"), s.to.Replace(configuration(t)))

	// Options of the sandbox come from the environment, so that the commands are those of the page.
	for name, value := range map[string]string{"PATH": strings.Join([]string{in("bin"), bin, os.Getenv("PATH")}, string(os.PathListSeparator)), "STATE_DIRECTORY": in("lib"),
		"PARLEY_LISTEN": s.sidecar, "PARLEY_ROOT": in("new"), "PARLEY_ALLOW_PRIVATE": "true", "PARLEY_WAIT": "0", "PARLEY_WAIT_BIG": "0",
		"PARLEY_CALLERS": in("callers"), "TOKEN": "a-token-for-the-docs", "B": own} {
		t.Setenv(name, value)
	}
	t.Chdir(s.dir)
	t.Cleanup(func() {
		for name := range s.running {
			s.end(name)
		}
	})
	return s
}

// configuration returns the file that the README shows.
func configuration(t *testing.T) string {
	b := must.Get(os.ReadFile("../../README.md"))
	m := regexp.MustCompile(`(?m)^    base .*\n(    .+\n)+`).Find(b)
	if m == nil {
		t.Fatal("README.md shows no configuration")
	}
	return strings.ReplaceAll(string(m), "\n"+indent, "\n")
}

// run runs the commands. Those of a block that end by themselves share a shell.
func (s *session) run(list []documented) {
	s.t.Helper()
	var first []documented
	for _, text := range before[s.page] {
		first = append(first, documented{text: text})
	}
	list = append(first, list...)
	for i := 0; i < len(list); i++ {
		if endless.MatchString(list[i].text) {
			s.begin(list[i])
			continue
		}
		script, from := "", list[i]
		for ; i < len(list) && list[i].block == from.block && !endless.MatchString(list[i].text); i++ {
			script += s.confined(list[i]) + "\n"
		}
		i--
		ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-exo", "pipefail", "-c", script)
		said, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			s.t.Errorf("%s:%d: %v\n%s", s.page, from.line, err, said)
		}
		if s.page == "docs/schemes.md" && strings.Contains(script, ".well-known/parley") {
			s.edited()
		}
	}
	if s.page == "docs/schemes.md" {
		s.listens()
		s.same("www/git-add.html", "new.html")
	}
}

// confined replaces what a command names on the machine of the page. It fails if the command would still leave the directory of the test, or this machine.
func (s *session) confined(d documented) string {
	s.t.Helper()
	text := s.to.Replace(d.text)
	if m := leaves(strings.NewReplacer(s.dir, ".", s.repository, ".").Replace(text)); m != "" {
		s.t.Fatalf("%s:%d: %s is not run, because of %q: replace it in newSession, or list the command in elsewhere", s.page, d.line, text, m)
	}
	return text
}

// leaves returns what in a command leaves the directory in which it is run, or this machine.
func leaves(text string) string {
	for _, m := range abroad.FindAllString(text, -1) {
		if m != "127.0.0.1" && m != "://127.0.0.1" {
			return m
		}
	}
	return ""
}

func TestCommandsStayOnThisMachine(t *testing.T) {
	for _, text := range []string{"rm -r out", "curl -s http://10.0.0.5:8640/", "curl https://www.example.org/", "openssl rand -hex 16 >/etc/parley.admin", "cp x ~/y", "crawler get URL >/usr/local/x"} {
		if leaves(text) == "" {
			t.Errorf("%s would be run", text)
		}
	}
	if m := leaves("curl -s http://127.0.0.1:8640/etc -o ./lib/etc/x; notifier --listen 127.0.0.1:80 --state crawl/"); m != "" {
		t.Errorf("a command in its directory is not run, because of %q", m)
	}
}

// begin starts a command that runs until it is stopped, and waits until it works. An earlier one of the kind ends.
func (s *session) begin(d documented) {
	s.t.Helper()
	words := strings.Fields(s.confined(d))
	name := strings.Join(words[:2], " ")
	s.end(name)
	p := start(s.t, nil, words[0], words[1:]...)
	s.running[name] = p
	option := func(name, otherwise string) string {
		if i := slices.Index(words, name); i > 0 {
			return words[i+1]
		}
		return otherwise
	}
	s.until(d.text+" works", func() bool {
		switch {
		case p.ended():
			s.t.Fatalf("%s:%d: %s has ended: %s", s.page, d.line, d.text, p.said())
		case words[0] == "notifier":
			resp, err := http.Get(option("--base", s.base) + "robots.rdf")
			if err != nil {
				return false
			}
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		case words[1] == "events":
			return strings.Contains(p.said(), `"op":`)
		}
		said, code := run(s.t, "crawler", "status", option("--into", "crawl"))
		return code == 0 && strings.Contains(said, "running") && !strings.Contains(said, "not running")
	})
}

// end stops a running command as a person would.
func (s *session) end(name string) {
	s.t.Helper()
	p := s.running[name]
	if p == nil {
		return
	}
	delete(s.running, name)
	p.stop()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("%s: %s exits with %d: %s", s.page, name, code, p.said())
	}
}

// edited does what docs/schemes.md asks for: it edits a page, and names the cursor from before that, when the change is published and the
// archive is made.
func (s *session) edited() {
	s.t.Helper()
	b := os.Getenv("B")
	head := func() string {
		resp, err := http.Get(b + ".well-known/parley")
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		var site struct{ Head string }
		s.must(json.NewDecoder(resp.Body).Decode(&site))
		return site.Head
	}
	var at string
	s.until("the site is described", func() bool { at = head(); return at != "" })
	s.t.Setenv("AT", at)
	stored := fmt.Sprint(len(tree(s.t, "www")), " stored")
	s.until("all versions are "+stored, func() bool {
		said, _ := run(s.t, "notifier", "status", "--base", b, "--state", filepath.Join(s.dir, "state"))
		return strings.Contains(said, stored)
	})
	page := must.Get(os.ReadFile("www/git-add.html"))
	s.must(os.WriteFile("old.html", page, 0o644))
	must.Write(s.t, "www/git-add.html", strings.Replace(string(page), "</body>", "<p>A new line.</p></body>", 1))
	s.until("the edit is published", func() bool { return head() != at })
	s.until("the archive is made", func() bool {
		resp, err := http.Head(b + "parley/site.wacz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// listens runs the program in Python, which prints the messages of the stream until it is stopped.
func (s *session) listens() {
	s.t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import websockets").Run() != nil {
		machine.Lacks(s.t, "no python3-websockets on this machine")
	}
	var said lockedBuffer
	cmd := exec.CommandContext(s.t.Context(), python, "-uc", strings.TrimPrefix(s.listener, indent), "ws"+strings.TrimPrefix(os.Getenv("B"), "http")+"parley/stream?after="+os.Getenv("AT"))
	cmd.Stdout, cmd.Stderr = &said, &said
	s.must(cmd.Start())
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	defer func() { s.t.Logf("the listener has printed %s", said.String()) }()
	s.until("a message of the stream is printed", func() bool { return strings.Contains(said.String(), `"t":"hello"`) })
}

func (s *session) same(a, b string) {
	s.t.Helper()
	x := must.Get(os.ReadFile(a))
	y := must.Get(os.ReadFile(b))
	if string(x) != string(y) {
		s.t.Errorf("%s: %s and %s differ", s.page, a, b)
	}
}

// The script that times the two sessions of docs/start.md types exactly the commands of the page, and the README names them too.
func TestScriptTypesThePage(t *testing.T) {
	const doc = "../../docs/start.md"
	var want []string
	for _, s := range readTranscript(t, doc).steps {
		want = append(want, s.command)
	}
	out, err := exec.Command(machine.Tool(t, "bash"), "../../packaging/paths", "--list").Output()
	if got := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(got, want) {
		t.Errorf("packaging/paths --list: %v\n%s\nwant\n%s", err, out, strings.Join(want, "\n"))
	}
	readme := must.Get(os.ReadFile("../../README.md"))
	for _, command := range []string{"rdfgen setup --docroot /var/www/html --base https://www.example.org/", "nginx -s reload", "systemctl enable --now parley-notifier", "rdfgen doctor",
		"crawler follow https://www.example.org/ --into mirror/ --contact you@example.net"} {
		if typed := strings.ReplaceAll(command, "https:", "http:"); !slices.ContainsFunc(want, func(s string) bool { return strings.TrimSuffix(s, " &") == typed }) || !strings.Contains(string(readme), command) {
			t.Errorf("README.md and %s do not both have %s", doc, command)
		}
	}
}
