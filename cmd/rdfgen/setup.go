package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

const setupHelp = `
Configure the notifier and nginx for a site: its lines in /etc/parley.conf, and
the locations that nginx forwards to the notifier, as a file of their own that is
included in the server block of the site.

    rdfgen setup --docroot /var/www/html --base https://www.example.org/

It shows each change, and asks before it writes. Without a terminal it only shows
them, unless --yes is given. nginx -t checks the result; if that fails, all files
are as before. A second run finds nothing to do.

For Apache and Caddy, it prints the lines to add.

Exit codes: 0 written, shown, or nothing to do; 1 something failed; 2 wrong usage.`

type setup struct {
	docroot, base, listen, root string
	yes                         bool
	env                         *command.Env

	conf   string        // of nginx; empty if there is none
	blocks []serverBlock // of conf
}

func setupCommand() *command.Command {
	bind := command.Bind
	s := &setup{root: "/"}
	return &command.Command{
		Name:    "setup",
		Summary: "write the configuration of a site, and of nginx for it",
		Usage:   "--docroot DIR --base URL [options]",
		Help:    setupHelp,
		Flags: []command.Flag{
			bind("docroot", &s.docroot, "`DIR` that the web server serves (default: that of nginx for the base URL)"),
			bind("base", &s.base, "`URL` at which the site is served"),
			bind("listen", &s.listen, "`ADDRESS` at which the notifier listens for requests from the web server (default: 127.0.0.1:8639, or the next port that no site has)"),
			bind("root", &s.root, "change DIR/etc/parley.conf and DIR/etc/nginx below `DIR`"),
			bind("yes", &s.yes, "write without asking"),
		},
		Run: func(_ context.Context, env *command.Env) error {
			s.env = env
			return s.run()
		},
	}
}

func (s *setup) run() (err error) {
	if s.root, err = filepath.Abs(s.root); err != nil { // nginx would take a relative path for one below its own prefix
		return err
	}
	for _, dir := range []string{"etc", "usr/local/etc", "opt/homebrew/etc"} {
		if conf := s.below(dir + "/nginx/nginx.conf"); s.conf == "" && isFile(conf) {
			s.conf = conf
			if s.blocks, err = readNginx(conf); err != nil {
				return err
			}
		}
	}
	if err := s.place(); err != nil {
		return err
	}
	edits, err := s.plan()
	if err != nil {
		return err
	}
	if len(edits) == 0 {
		fmt.Fprintln(s.env.Stdout, "Nothing to do: all files have these settings. \"rdfgen doctor\" checks whether they work.")
		return nil
	}
	for _, e := range edits {
		fmt.Fprint(s.env.Stdout, e.diff())
	}
	if !s.yes {
		answer, ok := s.env.Ask("Write these files? [y/N]")
		if !ok {
			fmt.Fprintln(s.env.Stdout, "Nothing was written: there is no terminal on which to ask. --yes writes these files.")
			return nil
		}
		if !strings.HasPrefix(strings.ToLower(answer), "y") {
			fmt.Fprintln(s.env.Stdout, "Nothing was written.")
			return nil
		}
	}
	if err := s.write(edits); err != nil {
		return err
	}
	s.next(edits)
	return nil
}

func (s *setup) below(path string) string { return filepath.Join(s.root, path) }

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// place makes sure that the base URL and the docroot are known.
func (s *setup) place() error {
	ask := func(option string, to *string, question, found string) error {
		if *to != "" {
			return nil
		}
		if found != "" {
			question += " [" + found + "]"
		}
		answer, ok := s.env.Ask(question + ":")
		if *to = cmp.Or(answer, found); !ok && found == "" || *to == "" {
			return command.Misusef("--%s is required", option)
		}
		return nil
	}
	if err := ask("base", &s.base, "URL at which the site is served, such as https://www.example.org/", ""); err != nil {
		return err
	}
	p := siteflags.Place{Base: s.base}
	if err := p.FindState(); err != nil { // which makes the base URL canonical
		return err
	}
	s.base = p.Base
	found := ""
	if list := s.serving(); len(list) > 0 {
		found = list[0].root
	}
	if err := ask("docroot", &s.docroot, "Directory that the web server serves", found); err != nil {
		return err
	}
	var err error
	if s.docroot, err = filepath.Abs(s.docroot); err != nil {
		return err
	}
	return (&siteflags.Place{Docroot: s.docroot}).CheckDocroot()
}

// serving returns the server blocks of the site.
func (s *setup) serving() []serverBlock {
	u, err := url.Parse(s.base)
	if err != nil {
		return nil
	}
	docroot := s.docroot
	if u.Path != "/" {
		docroot = "" // the root of the host is another directory, or an alias
	}
	return serving(s.blocks, u.Hostname(), docroot, u.Scheme == "https")
}

// path is that of the base URL, with slashes around it.
func (s *setup) path() string { return strings.TrimPrefix(s.base, protocol.Origin(s.base)) }

var notInName = regexp.MustCompile(`[^a-z0-9.]+`)

// nameOfSite makes a name for sections and files from a base URL, such as "www.example.org" or "localhost-8080-docs".
func nameOfSite(base string) string {
	_, rest, _ := strings.Cut(strings.ToLower(base), "://")
	return strings.Trim(notInName.ReplaceAllString(rest, "-"), "-.")
}

// plan returns the changes of files, and prints what cannot be done.
func (s *setup) plan() ([]edit, error) {
	config, err := editOf(s.below("etc/parley.conf"))
	if err != nil {
		return nil, err
	}
	if config.now, err = s.configure(config.was); err != nil {
		return nil, fmt.Errorf("%s: %w", config.path, err)
	}
	edits, err := s.planNginx()
	return slices.DeleteFunc(append(edits, config), func(e edit) bool { return e.was == e.now }), err
}

const defaultListen = "127.0.0.1:8639"

// configure returns the text of parley.conf with the site in it, and sets s.listen to what the site has there.
func (s *setup) configure(text string) (string, error) {
	type section struct {
		name, base, docroot, listen string
		line                        int // of its first option
	}
	all := []*section{{}} // the first is the part before all sections
	err := command.EachOption(strings.NewReader(text), func(line int, name, option, value string) error {
		last := all[len(all)-1]
		if last.name != name {
			last = &section{name: name}
			all = append(all, last)
		}
		if last.line == 0 {
			last.line = line
		}
		if to := map[string]*string{"base": &last.base, "docroot": &last.docroot, "listen": &last.listen}[option]; to != nil {
			*to = value
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	top := all[0]
	taken := map[string]bool{"127.0.0.1:8640": true} // of --admin in the manual
	for _, x := range all {
		listen := cmp.Or(x.listen, top.listen, defaultListen)
		if base, err := protocol.CanonicalURL("", strings.TrimSuffix(x.base, "/")+"/"); err == nil && base == s.base {
			if docroot := cmp.Or(x.docroot, top.docroot); !sameDir(docroot, s.docroot) {
				return "", fmt.Errorf("%s is there already, with docroot %q: change it there, or give --docroot %[2]s", s.base, docroot)
			}
			if s.listen = cmp.Or(s.listen, listen); s.listen != listen {
				return "", fmt.Errorf("%s is there already, with listen %s: change it there, or leave --listen out", s.base, listen)
			}
			return text, nil
		}
		taken[listen] = taken[listen] || x.base != ""
	}
	if len(all) == 1 && top.base == "" {
		s.listen = cmp.Or(s.listen, top.listen)
	}
	for port := 8639; s.listen == ""; port++ {
		if at := fmt.Sprintf("127.0.0.1:%d", port); !taken[at] {
			s.listen = at
		}
	}
	if text == "" {
		text = "# The sites of this machine, for rdfgen and notifier; \"rdfgen --help-all\" and \"notifier --help-all\" list all options.\n"
	} else if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if top.base != "" || len(all) > 1 {
		text += "\n[" + nameOfSite(s.base) + "]\n"
	}
	if top.base != "" { // its options would apply to the new section too
		lines := strings.SplitAfter(text, "\n")
		text = strings.Join(slices.Insert(lines, top.line-1, "["+nameOfSite(top.base)+"]\n"), "")
		top = &section{}
	}
	for _, o := range []struct{ name, value, forAll string }{{"base", s.base, ""}, {"docroot", s.docroot, top.docroot}, {"listen", s.listen, cmp.Or(top.listen, defaultListen)}} {
		if o.value != o.forAll {
			text += fmt.Sprintf("%-14s %s\n", o.name, o.value)
		}
	}
	return text, nil
}

// nginxLocations has the base URL, its path, and the address of the notifier.
const nginxLocations = `# Written by "rdfgen setup": forwards what the notifier answers for %[1]s
location = %[2]srobots.rdf {
    proxy_pass http://%[3]s;
    proxy_set_header X-Forwarded-For $remote_addr;
    gzip on;
    gzip_types application/rdf+xml;
    gzip_vary on;
}
location = %[2]s.well-known/parley {
    proxy_pass http://%[3]s;
    proxy_set_header X-Forwarded-For $remote_addr;
}
location ^~ %[2]sparley/ {
    proxy_pass http://%[3]s;
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection "upgrade";
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_read_timeout 90s;
    proxy_max_temp_file_size 0;
    client_max_body_size 9m;
    gzip off;
}
`

const apacheLines = `Add to the virtual host of the site in Apache 2.4.47 or later, after "a2enmod proxy_http":
    ProxyPass %[2]srobots.rdf         http://%[3]s%[2]srobots.rdf
    ProxyPass %[2]s.well-known/parley http://%[3]s%[2]s.well-known/parley
    ProxyPass %[2]sparley/            http://%[3]s%[2]sparley/ upgrade=websocket timeout=90
`

const caddyLines = `Add to the site in the Caddyfile:
    @parley path %[2]srobots.rdf %[2]s.well-known/parley %[2]sparley/*
    reverse_proxy @parley %[3]s
`

// planNginx returns the changes of nginx's files. If there is no place for them, it prints what to add by hand.
func (s *setup) planNginx() ([]edit, error) {
	blocks := s.serving()
	if len(blocks) == 0 {
		lines := "No server block of nginx was found for %[1]s and its docroot. Add there:\n" + nginxLocations
		switch {
		case s.conf != "":
		case isFile(s.below("etc/apache2/apache2.conf")), isFile(s.below("etc/httpd/conf/httpd.conf")):
			lines = apacheLines
		case isFile(s.below("etc/caddy/Caddyfile")):
			lines = caddyLines
		}
		_, err := fmt.Fprintf(s.env.Stdout, lines, s.base, s.path(), s.listen)
		return nil, err
	}
	name := "parley-" + nameOfSite(s.base) + ".conf"
	lines, err := editOf(filepath.Join(filepath.Dir(s.conf), name))
	if err != nil {
		return nil, err
	}
	lines.now, lines.nginx = fmt.Sprintf(nginxLocations, s.base, s.path(), s.listen), true
	edits, used := []edit{lines}, false
	for _, b := range blocks {
		if slices.Contains(b.includes, name) {
			used = true
			continue
		}
		if slices.Contains(b.locations, s.path()+"parley/") {
			fmt.Fprintf(s.env.Stdout, "%s has locations for %s already: they are not changed.\n", b.file, s.base)
			continue
		}
		used = true
		i := slices.IndexFunc(edits, func(e edit) bool { return e.path == b.file })
		if i < 0 {
			e, err := editOf(b.file)
			if err != nil {
				return nil, err
			}
			e.nginx = true
			i, edits = len(edits), append(edits, e)
		}
		e := &edits[i]
		at := b.end + len(e.now) - len(e.was) // blocks come in the order of the file
		e.now = e.now[:at] + "\n    include " + name + ";" + e.now[at:]
	}
	if !used {
		return nil, nil
	}
	return edits, nil
}

// An edit is a change of a file.
type edit struct {
	path, was, now string
	info           fs.FileInfo // nil if the file does not exist
	nginx          bool        // it is nginx's
}

func isNginx(e edit) bool { return e.nginx }

// editOf returns an edit that changes nothing yet.
func editOf(path string) (e edit, err error) {
	e.path = path
	e.info, err = os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	text, err := os.ReadFile(path)
	e.was, e.now = string(text), string(text)
	return e, err
}

// diff shows the change as a unified diff with one hunk.
func (e *edit) diff() string {
	const around = 3 // lines of context
	was, now := slices.Collect(strings.Lines(e.was)), slices.Collect(strings.Lines(e.now))
	same, tail := 0, 0 // lines at the beginning, and at the end
	for same < min(len(was), len(now)) && was[same] == now[same] {
		same++
	}
	for tail < min(len(was), len(now))-same && was[len(was)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	from, left := max(0, same-around), max(0, tail-around) // the hunk is was[from:len(was)-left]
	name := e.path
	if e.info == nil {
		name = "/dev/null"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", name, e.path, min(from+1, len(was)), len(was)-left-from, from+1, len(now)-left-from)
	for _, part := range []struct {
		sign  byte
		lines []string
	}{{' ', now[from:same]}, {'-', was[same : len(was)-tail]}, {'+', now[same : len(now)-tail]}, {' ', now[len(now)-tail : len(now)-left]}} {
		for _, line := range part.lines {
			if !strings.HasSuffix(line, "\n") {
				line += "\n\\ No newline at end of file\n"
			}
			fmt.Fprintf(&b, "%c%s", part.sign, line)
		}
	}
	return b.String()
}

// replace makes text the content of the file, or of the one that a symbolic link names, with its mode and its owner. Without
// a file before, an empty text removes it.
func (e *edit) replace(text string) error {
	if e.info == nil && text == "" {
		return os.Remove(e.path)
	}
	path, mode := e.path, fs.FileMode(0o644)
	if e.info != nil {
		var err error
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
		mode = e.info.Mode().Perm()
	} else if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(path, text, mode); err != nil || e.info == nil {
		return err
	}
	return chownLike(path, e.info)
}

// write writes the files, and takes everything back if nginx does not accept them.
func (s *setup) write(edits []edit) (err error) {
	done := 0
	for ; done < len(edits) && err == nil; done++ {
		err = edits[done].replace(edits[done].now)
	}
	tool, missing := exec.LookPath("nginx")
	if missing != nil { // it is in a directory for root
		tool, missing = exec.LookPath("/usr/sbin/nginx")
	}
	if err == nil && missing == nil && slices.ContainsFunc(edits, isNginx) {
		var said []byte
		if said, err = exec.Command(tool, "-t", "-q", "-c", s.conf).CombinedOutput(); err != nil {
			err = fmt.Errorf("nginx -t: %w: %s", err, bytes.TrimSpace(said))
		}
	}
	if err == nil {
		return nil
	}
	for _, e := range edits[:done] {
		if back := e.replace(e.was); back != nil && !errors.Is(back, fs.ErrNotExist) {
			return fmt.Errorf("%w; and %s could not be restored: %w", err, e.path, back)
		}
	}
	return fmt.Errorf("all files are as before: %w", err)
}

// next prints the commands that put the configuration into force.
func (s *setup) next(edits []edit) {
	lines := []string{"Written. Next:"}
	if slices.ContainsFunc(edits, isNginx) {
		lines = append(lines, "nginx -s reload")
	}
	config := s.below("etc/parley.conf")
	start, option := "notifier --config "+config, " --config "+config
	if config == siteflags.ConfigFile {
		option = ""
	}
	for _, dir := range []string{"etc", "lib", "usr/lib"} {
		if isFile(s.below(dir + "/systemd/system/parley-notifier.service")) {
			start = "systemctl enable parley-notifier; systemctl restart parley-notifier"
		}
	}
	fmt.Fprintln(s.env.Stdout, strings.Join(append(lines, start, "rdfgen doctor"+option), "\n    "))
}
