package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A webServer is one whose configuration setup changes: setup adds a file, which says what is forwarded to the notifier, and a line
// that includes that file to each block of the site.
type webServer struct {
	name, block string // "nginx", and what it calls such a block
	conf        string // its main file; empty if there is none
	blocks      []serverBlock
	include     string   // the line, for a path
	reload      string   // the command
	check       []string // commands that test a main file, whose name is added: the first whose program is there is used
}

// findServers finds the configuration of web servers.
func (s *setup) findServers() (found []*webServer, err error) {
	for _, dir := range []string{"etc", "usr/local/etc", "opt/homebrew/etc"} {
		if conf := s.below(dir + "/nginx/nginx.conf"); len(found) == 0 && isFile(conf) {
			n := nginxReader{dir: filepath.Dir(conf), root: s.root}
			if _, _, err := n.read(conf); err != nil {
				return nil, err
			}
			found = append(found, &webServer{name: "nginx", block: "server block", conf: conf, blocks: n.blocks, include: "include %s;", reload: "nginx -s reload"})
		}
	}
	for _, conf := range []string{"etc/apache2/apache2.conf", "etc/httpd/conf/httpd.conf"} {
		if conf = s.below(conf); isFile(conf) {
			a := apacheReader{root: filepath.Dir(conf), top: s.root}
			if err := a.read(conf, nil); err != nil {
				return nil, err
			}
			found = append(found, &webServer{name: "Apache", block: "virtual host", conf: conf, blocks: a.blocks, include: `Include "%s"`, reload: "apachectl graceful",
				check: []string{"httpd -t -f", "apachectl -t -f"}})
		}
	}
	if conf := s.below("etc/caddy/Caddyfile"); isFile(conf) {
		b, err := os.ReadFile(conf)
		if err != nil {
			return nil, err
		}
		found = append(found, &webServer{name: "Caddy", block: "site", conf: conf, blocks: caddySites(conf, string(b)), include: `import "%s"`, reload: "caddy reload --config " + conf,
			check: []string{"caddy validate --adapter caddyfile --config"}})
	}
	for _, w := range found { // files outside the root, which a path with ".." can name, are not changed
		w.blocks = slices.DeleteFunc(w.blocks, func(b serverBlock) bool { return !strings.HasPrefix(b.file, s.below("")+"/") && s.root != "/" })
	}
	return found, nil
}

// within returns where a path in a configuration file below root leads on this machine: an absolute path begins at root. A path that
// begins with root, or is relative, stays as it is.
func within(root, path string) string {
	if !filepath.IsAbs(path) || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/") {
		return path
	}
	return filepath.Join(root, path)
}

// directiveWord matches a comment, or a word of a line of Apache or Caddy.
var directiveWord = regexp.MustCompile("#.*|\"(?:\\\\.|[^\"\\\\])*\"|`[^`]*`|[^\\s\"`]+")

// wordsOf returns the words of a line.
func wordsOf(line string) (words []string) {
	for _, w := range directiveWord.FindAllString(line, -1) {
		if w[0] == '#' {
			break
		}
		words = append(words, strings.Trim(w, "\"`"))
	}
	return words
}

// An apacheReader reads Apache's configuration.
type apacheReader struct {
	top    string   // absolute names are below it
	root   string   // ServerRoot, where relative names begin
	open   []string // files that are being read
	macro  bool     // in a macro, whose hosts are used elsewhere
	blocks []serverBlock
}

// read reads a file, which is included in a virtual host unless that is nil.
func (a *apacheReader) read(file string, in *serverBlock) error {
	if slices.Contains(a.open, file) {
		return fmt.Errorf("%s includes itself", file)
	}
	a.open = append(a.open, file)
	defer func() { a.open = a.open[:len(a.open)-1] }()
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	at := 0
	text := strings.NewReplacer("\\\n", "  ", "\\\r\n", "   ").Replace(string(b)) // lines that go on are joined, and offsets stay
	for line := range strings.Lines(text) {
		end := at + len(strings.TrimRight(line, "\r\n"))
		at += len(line)
		words := wordsOf(strings.TrimSuffix(strings.TrimSpace(line), ">"))
		if len(words) == 0 {
			continue
		}
		name, args := strings.ToLower(words[0]), words[1:]
		switch {
		case name == "<virtualhost":
			in = &serverBlock{file: file, end: end, locations: make(map[string]string)}
			for _, address := range args {
				in.ports = append(in.ports, address[strings.LastIndex(address, ":")+1:])
			}
			in.tls = slices.Contains(in.ports, "443")
		case name == "</virtualhost" && in != nil:
			again := func(b serverBlock) bool { return b.file == in.file && b.end == in.end } // two patterns include the file
			if !a.macro && !slices.ContainsFunc(a.blocks, again) {
				a.blocks = append(a.blocks, *in)
			}
			in = nil
		case name == "<macro" || name == "</macro":
			a.macro = name == "<macro"
		case name == "serverroot" && len(args) > 0:
			a.root = within(a.top, args[0])
		case name == "include" || name == "includeoptional":
			for _, pattern := range args {
				if in != nil {
					in.includes = append(in.includes, pattern)
				}
				if pattern = within(a.top, pattern); !filepath.IsAbs(pattern) {
					pattern = filepath.Join(a.root, pattern)
				}
				if st, err := os.Stat(pattern); err == nil && st.IsDir() {
					pattern = filepath.Join(pattern, "*")
				}
				files, _ := filepath.Glob(pattern) // one that Apache does not understand either has no files
				for _, more := range slices.DeleteFunc(files, func(path string) bool { return !isFile(path) }) {
					if err := a.read(more, in); err != nil {
						return err
					}
				}
			}
		case in != nil && len(args) > 0:
			in.takeApache(name, args, file)
		}
	}
	return nil
}

// takeApache records a directive of a virtual host.
func (s *serverBlock) takeApache(name string, args []string, file string) {
	switch name {
	case "servername", "serveralias":
		for _, host := range args {
			_, host, _ = strings.Cut("://"+host, "://")
			host = host[strings.LastIndex(host, "/")+1:]
			host, _, _ = strings.Cut(host, ":")
			s.names = append(s.names, host)
		}
	case "documentroot":
		s.root = args[0]
	case "sslengine":
		s.tls = s.tls || strings.EqualFold(args[0], "on")
	case "redirect":
		i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "/") })
		s.redirects = s.redirects || i >= 0 && args[i] == "/"
	case "proxypass", "<location":
		s.locations[args[0]] = file
	}
}

// caddySites returns the sites of a Caddyfile, but not those in files that it imports. It finds none if the Caddyfile has heredocs, variables of
// the environment, or a site without braces.
func caddySites(file, text string) (sites []serverBlock) {
	if strings.Contains(text, "{$") || strings.Contains(text, "<<") {
		return nil
	}
	depth, at := 0, 0
	var addresses []string
	for line := range strings.Lines(text) {
		end := at + len(strings.TrimRight(line, "\r\n"))
		at += len(line)
		words := wordsOf(line)
		if len(words) == 0 {
			continue
		}
		last := len(words) - 1
		in := len(sites) - 1
		switch {
		case words[0] == "}" && depth > 0 && last == 0:
			depth--
			continue
		case depth == 0 && words[last] == "{":
			sites, addresses = append(sites, caddySite(file, end, append(addresses, words...))), nil
		case depth == 0 && strings.HasSuffix(words[last], ","):
			addresses = append(addresses, words...)
		case depth == 0 && words[0] != "import" || words[0] == "}":
			return nil
		case depth == 0:
		case words[0] == "root" && depth == 1 && (last == 1 || words[1] == "*"):
			sites[in].root = words[last]
		case words[0] == "import" && last > 0:
			sites[in].includes = append(sites[in].includes, words[1])
		case words[0] == "redir" && depth == 1 && last > 0 && !strings.ContainsAny(words[1][:1], "/@"):
			sites[in].redirects = true
		}
		if depth > 0 {
			for _, w := range words {
				sites[in].locations[strings.TrimRight(w, "/*")+"/"] = file
			}
		}
		if words[last] == "{" {
			depth++
		}
	}
	return slices.DeleteFunc(sites, func(s serverBlock) bool { return len(s.names) == 0 }) // options for all sites, and snippets
}

// caddySite returns a site that has only addresses yet, such as "example.org", "http://example.org:8080" or ":80".
func caddySite(file string, end int, addresses []string) serverBlock {
	s := serverBlock{file: file, end: end, locations: make(map[string]string), onlyNames: true}
	for _, a := range strings.FieldsFunc(strings.Join(addresses, " "), func(r rune) bool { return r == ',' || r == ' ' }) {
		if a == "{" || a[0] == '(' || a[0] == '&' {
			continue
		}
		a, plain := strings.CutPrefix(a, "http://")
		u, err := url.Parse("//" + strings.TrimPrefix(a, "https://"))
		if err != nil {
			continue
		}
		if u.Port() != "" {
			s.ports = append(s.ports, u.Port())
		}
		s.names = append(s.names, u.Hostname())
		s.isDefault = s.isDefault || u.Hostname() == ""
		s.tls = s.tls || !plain && u.Port() != "80"
	}
	return s
}
