package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

const setupHelp = `
Configure the notifier and the web server (nginx, Apache or Caddy) for a site: its
lines in /etc/parley.conf; what the web server forwards to the notifier, as a file of
its own that is included in the server block of the site; and, unless a package has
installed it, a unit of systemd, which runs the notifier as the web server's user.

    rdfgen setup --docroot /var/www/html --base https://www.example.org/

It shows each change, and asks before it writes. Without a terminal it shows the
changes and fails, unless --yes is given. The web server checks the result (nginx -t,
apachectl -t, caddy validate); if that fails, all files stay as they were. A second run
finds nothing to do.

Exit codes: 0 written, declined, or nothing to do; 1 not written, or something
failed; 2 wrong usage.`

type setup struct {
	docroot, base, listen, root string
	yes                         bool
	env                         *command.Env

	file string // in the directory of the web server's main file, with what is forwarded
	web  *webServer
}

func setupCommand() *command.Command {
	bind := command.Bind
	s := &setup{root: "/", web: &webServer{name: "nginx", block: "server block"}}
	return &command.Command{
		Name:    "setup",
		Summary: "write the configuration of a site, and of the web server for it",
		Usage:   "--docroot DIR --base URL [options]",
		Help:    setupHelp,
		Flags: []command.Flag{
			bind("docroot", &s.docroot, "`DIR` that the web server serves (default: that of the web server for the base URL)"),
			bind("base", &s.base, "`URL` at which the site is served"),
			bind("listen", &s.listen, "`ADDRESS` at which the notifier listens for requests from the web server (default: 127.0.0.1:8639, or the next port that no site has)"),
			bind("root", &s.root, "change etc/parley.conf, the web server's files and etc/systemd below `DIR`"),
			bind("yes", &s.yes, "write without asking"),
		},
		Run: func(ctx context.Context, env *command.Env) error {
			s.env = env
			return s.run(ctx)
		},
	}
}

func (s *setup) run(ctx context.Context) (err error) {
	if file := s.env.Flags.Lookup("config").Value.String(); file != "" {
		return command.Misusef("--config %s: setup writes etc/parley.conf below --root, and no other file: copy the lines that it shows without --yes", file)
	}
	if s.root, err = filepath.Abs(s.root); err != nil { // nginx would take a relative path for one below its own prefix
		return err
	}
	servers, err := s.findServers()
	if err != nil {
		return err
	}
	if err := s.place(servers); err != nil {
		return err
	}
	edits, err := s.plan()
	if err != nil {
		return err
	}
	if len(edits) == 0 {
		what := "Nothing to do: all files"
		if len(s.serving()) == 0 { // lines for it were shown
			what = "Nothing to do in other files: they"
		}
		fmt.Fprintln(s.env.Stdout, what+" have these settings. \"rdfgen doctor\" checks whether they work.")
		return nil
	}
	for _, e := range edits {
		fmt.Fprint(s.env.Stdout, e.diff())
	}
	if !s.yes {
		answer, ok := s.env.Ask("Write these files? [y/N]")
		if !ok {
			return errors.New("nothing was written: there is no terminal on which to ask; --yes writes these files without asking")
		}
		if !strings.HasPrefix(strings.ToLower(answer), "y") {
			fmt.Fprintln(s.env.Stdout, "Nothing was written.")
			return nil
		}
	}
	if err := s.write(ctx, edits); err != nil {
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
func (s *setup) place(servers []*webServer) error {
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
	s.file = "parley-" + strings.TrimSuffix(filepath.Base(p.State), ".db") + ".conf" // whose name is that of one site only
	serves := func(w *webServer) bool {
		s.web = w
		return len(s.serving()) > 0
	}
	if !slices.ContainsFunc(servers, serves) && len(servers) > 0 {
		s.web = servers[0]
	}
	found := ""
	if s.urlPath() == "/" { // below a path it may be another directory
		for _, b := range s.serving() {
			found = cmp.Or(found, b.root)
		}
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
	return serving(s.web.blocks, u.Hostname(), u.Port(), docroot, u.Scheme == "https")
}

// urlPath is the path of the base URL, with slashes around it.
func (s *setup) urlPath() string { return strings.TrimPrefix(s.base, protocol.Origin(s.base)) }

// location is urlPath as web servers compare it: without escapes.
func (s *setup) location(name string) string {
	path, err := url.PathUnescape(s.urlPath() + name)
	if err != nil {
		path = s.urlPath() + name
	}
	return path
}

var quoteEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// nginxWord is location as a word in nginx's files.
func (s *setup) nginxWord(name string) string {
	path := s.location(name)
	if strings.ContainsAny(path, " \t\r\n;{}\"'\\#") {
		path = `"` + quoteEscapes.Replace(path) + `"`
	}
	return path
}

var notInName = regexp.MustCompile(`[^a-z0-9.]+`)

// nameOfSite makes the name of a section that text does not have yet from a base URL, such as "www.example.org" or
// "localhost-8080-docs".
func nameOfSite(base, text string) string {
	_, rest, _ := strings.Cut(strings.ToLower(base), "://")
	first := strings.Trim(notInName.ReplaceAllString(rest, "-"), "-.")
	first = first[:min(len(first), 90)] // sections have names of up to 100 characters
	for n, name := 2, first; ; n++ {
		if there, _ := regexp.MatchString(`\[\s*`+regexp.QuoteMeta(name)+`\s*\]`, text); !there {
			return name
		}
		name = fmt.Sprintf("%s-%d", first, n)
	}
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
	if again, err := s.configure(config.now); err != nil || again != config.now {
		return nil, fmt.Errorf("%s: docroot %q cannot be a line of it: rename the directory", config.path, s.docroot)
	}
	edits, err := s.planServer()
	if err != nil {
		return nil, err
	}
	units, err := s.planUnit()
	return slices.DeleteFunc(append(append(edits, config), units...), func(e edit) bool { return e.was == e.now }), err
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
	top, sites := all[0], all
	if len(all) > 1 { // then the first part is no site
		sites = all[1:]
	}
	taken := map[string]bool{"127.0.0.1:8640": true} // of --admin in the manual
	other := ""                                      // base of the site at the other scheme, which would have the same state
	for _, x := range sites {
		listen, own := cmp.Or(x.listen, top.listen, defaultListen), cmp.Or(x.base, top.base)
		base, err := protocol.CanonicalURL("", strings.TrimSuffix(own, "/")+"/")
		switch _, rest, _ := strings.Cut(s.base, ":"); {
		case err == nil && base == s.base:
			if docroot := cmp.Or(x.docroot, top.docroot); !sameDir(docroot, s.docroot) {
				return "", fmt.Errorf("%s is there already, with docroot %q: change it there, or give --docroot %[2]s", s.base, docroot)
			}
			if s.listen = cmp.Or(s.listen, listen); s.listen != listen {
				return "", fmt.Errorf("%s is there already, with listen %s: change it there, or leave --listen out", s.base, listen)
			}
			return text, nil
		case err == nil && strings.HasSuffix(base, ":"+rest):
			other = own
		}
		taken[listen] = taken[listen] || own != ""
	}
	if other != "" {
		return "", fmt.Errorf("the site is there already, with base %s: change it there to %s", other, s.base)
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
		text += "\n[" + nameOfSite(s.base, text) + "]\n"
	}
	if top.base != "" && len(all) == 1 { // its options would apply to the new section too
		lines := strings.SplitAfter(text, "\n")
		text = strings.Join(slices.Insert(lines, top.line-1, "["+nameOfSite(top.base, text)+"]\n"), "")
		top = &section{}
	}
	for _, o := range []struct{ name, value, forAll string }{{"base", s.base, ""}, {"docroot", s.docroot, top.docroot}, {"listen", s.listen, cmp.Or(top.listen, defaultListen)}} {
		if o.value != o.forAll {
			text += fmt.Sprintf("%-14s %s\n", o.name, o.value)
		}
	}
	return text, nil
}

// nginxLocations has the base URL, the address of the notifier, and three paths. It begins with the location of the manifest,
// which nginx may have already.
const nginxLocations = `# Written by "rdfgen setup": forwards what the notifier answers for %[1]s
location = %[3]s {
    proxy_pass http://%[2]s;
    proxy_set_header X-Forwarded-For $remote_addr;
    gzip on;
    gzip_types application/rdf+xml;
    gzip_vary on;
}
location = %[4]s {
    proxy_pass http://%[2]s;
    proxy_set_header X-Forwarded-For $remote_addr;
}
location ^~ %[5]s {
    proxy_pass http://%[2]s;
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

// apacheForwards and caddyForwards have the base URL, the address of the notifier, and the path of the site.
const apacheForwards = `# Written by "rdfgen setup": forwards what the notifier answers for %[1]s
ProxyPass "%[3]srobots.rdf"         "http://%[2]s%[3]srobots.rdf"
ProxyPass "%[3]s.well-known/parley" "http://%[2]s%[3]s.well-known/parley"
ProxyPass "%[3]sparley/"            "http://%[2]s%[3]sparley/" upgrade=websocket timeout=90
<IfModule rewrite_module>
    RewriteRule "^%[4]s(robots\.rdf|\.well-known/parley|parley/.*)$" - [END]
</IfModule>
`

const caddyForwards = `# Written by "rdfgen setup": forwards what the notifier answers for %[1]s
@%[4]s vars_regexp {http.request.orig_uri.path} "^%[3]s(robots\.rdf|\.well-known/parley|parley/.*)$"
handle @%[4]s {
	rewrite * {http.request.orig_uri}
	reverse_proxy %[2]s
}
`

// forwards returns the text of the file that is included in the blocks of the site.
func (s *setup) forwards() string {
	path := quoteEscapes.Replace(s.location(""))
	switch s.web.name {
	case "Apache":
		return fmt.Sprintf(apacheForwards, s.base, s.listen, path, quoteEscapes.Replace(regexp.QuoteMeta(s.location(""))))
	case "Caddy":
		return fmt.Sprintf(caddyForwards, s.base, s.listen, strings.ReplaceAll(regexp.QuoteMeta(s.location("")), `"`, `\"`), strings.TrimSuffix(s.file, ".conf"))
	}
	return fmt.Sprintf(nginxLocations, s.base, s.listen, s.nginxWord("robots.rdf"), s.nginxWord(".well-known/parley"), s.nginxWord("parley/"))
}

// planServer returns the changes of the web server's files. If there is no place for them, it prints what to add by hand.
func (s *setup) planServer() ([]edit, error) {
	w, blocks := s.web, s.serving()
	if len(blocks) == 0 {
		_, err := fmt.Fprintf(s.env.Stdout, "No %s of %s was found for %s and its docroot. Add there:\n%s", w.block, w.name, s.base, s.forwards())
		return nil, err
	}
	lines, err := editOf(filepath.Join(filepath.Dir(w.conf), s.file))
	if err != nil {
		return nil, err
	}
	included := lines.path
	if w.name == "nginx" { // which looks beside its main file
		included = s.file
	}
	has := func(b serverBlock, name string) bool { // by hand
		file, ok := b.locations[s.location(name)]
		return ok && file != lines.path
	}
	lines.now, lines.web = s.forwards(), true
	if w.name == "nginx" && slices.ContainsFunc(blocks, func(b serverBlock) bool { return has(b, "robots.rdf") }) {
		fmt.Fprintf(s.env.Stdout, "nginx has a location for %srobots.rdf already: it is not changed.\n", s.base)
		head, rest, _ := strings.Cut(lines.now, "\n")
		lines.now = head + rest[strings.Index(rest, "\n}\n")+2:]
	}
	edits, used := []edit{lines}, false
	for _, b := range blocks {
		if slices.Contains(b.includes, included) {
			used = true
			continue
		}
		if has(b, "parley/") {
			fmt.Fprintf(s.env.Stdout, "%s forwards requests for %s already: that is not changed.\n", b.file, s.base)
			continue
		}
		used = true
		i := slices.IndexFunc(edits, func(e edit) bool { return e.path == b.file })
		if i < 0 {
			e, err := editOf(b.file)
			if err != nil {
				return nil, err
			}
			e.web = true
			i, edits = len(edits), append(edits, e)
		}
		e := &edits[i]
		at := b.end + len(e.now) - len(e.was) // blocks come in the order of the file
		e.now = e.now[:at] + "\n    " + fmt.Sprintf(w.include, included) + e.now[at:]
	}
	if !used {
		return nil, nil
	}
	return edits, nil
}

// next prints the commands that put the configuration into force.
func (s *setup) next(edits []edit) {
	lines := []string{"Written. Next:"}
	if ofServer(edits) {
		lines = append(lines, s.web.reload)
	}
	config := s.below("etc/parley.conf")
	start, option := "notifier --config "+config, " --config "+config
	if config == siteflags.ConfigFile {
		option = ""
	}
	if s.hasUnit() {
		start = "systemctl enable parley-notifier; systemctl restart parley-notifier"
	}
	fmt.Fprintln(s.env.Stdout, strings.Join(append(lines, start, "rdfgen doctor"+option), "\n    "))
}
