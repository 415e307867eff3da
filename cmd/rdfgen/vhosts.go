package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A webServer is whose configuration setup changes: it gets a file of its own with what is forwarded to the notifier, and a line that
// includes it in each block of the site.
type webServer struct {
	name, block string // "nginx", and what it calls such a block
	conf        string // its main file; empty if there is none
	blocks      []serverBlock
	include     string   // the line, for a path
	reload      string   // the command
	check       []string // the command that tests main files, by one of several names that the program may have
}

// findServer finds the web server's configuration: nginx's if there are several.
func (s *setup) findServer() error {
	for _, dir := range []string{"etc", "usr/local/etc", "opt/homebrew/etc"} {
		if conf := s.below(dir + "/nginx/nginx.conf"); s.web.conf == "" && isFile(conf) {
			n := nginxReader{dir: filepath.Dir(conf)}
			if _, _, err := n.read(conf); err != nil {
				return err
			}
			s.web.conf, s.web.blocks = conf, n.blocks
		}
	}
	if s.web.conf != "" {
		return nil
	}
	for _, conf := range []string{"etc/apache2/apache2.conf", "etc/httpd/conf/httpd.conf"} {
		if conf = s.below(conf); isFile(conf) {
			s.web = &webServer{name: "Apache", block: "virtual host", conf: conf, include: `Include "%s"`, reload: "apachectl graceful", check: []string{"apachectl -t -f", "apache2ctl -t -f", "httpd -t -f"}}
			a := apacheReader{root: filepath.Dir(conf)}
			err := a.read(conf, nil)
			s.web.blocks = a.blocks
			return err
		}
	}
	if conf := s.below("etc/caddy/Caddyfile"); isFile(conf) {
		s.web = &webServer{name: "Caddy", block: "site", conf: conf, include: `import "%s"`, reload: "caddy reload --config " + conf, check: []string{"caddy validate --adapter caddyfile --config"}}
		b, err := os.ReadFile(conf)
		s.web.blocks = caddySites(conf, string(b))
		return err
	}
	return nil
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
	root   string   // ServerRoot, where relative names begin
	open   []string // files that are being read
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
	for line := range strings.Lines(string(b)) {
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
			a.blocks, in = append(a.blocks, *in), nil
		case name == "serverroot" && len(args) > 0:
			a.root = args[0]
		case name == "include" || name == "includeoptional":
			for _, pattern := range args {
				if in != nil {
					in.includes = append(in.includes, pattern)
				}
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(a.root, pattern)
				}
				files, _ := filepath.Glob(pattern) // one that Apache does not understand either has no files
				for _, more := range files {
					if err := a.read(more, in); err != nil {
						return err
					}
				}
			}
		case in != nil && len(args) > 0:
			in.takeApache(name, args, file)
			if name == "servername" && file == in.file {
				in.end = end
			}
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
		s.redirects = s.redirects || slices.Contains(args, "/")
	case "proxypass", "<location":
		s.locations[args[0]] = file
	}
}

// caddySites returns the sites of a Caddyfile. Those in files that it imports are not found.
func caddySites(file, text string) (sites []serverBlock) {
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
		case words[0] == "}":
			depth = max(0, depth-1)
		case depth == 0:
			addresses = append(addresses, words...)
			if words[last] == "{" {
				sites = append(sites, caddySite(file, end, addresses))
			}
			if !strings.HasSuffix(words[last], ",") {
				addresses = nil
			}
		case words[0] == "root":
			sites[in].root = words[last]
		case words[0] == "import" && last > 0:
			sites[in].includes = append(sites[in].includes, words[1])
		case words[0] == "redir" && depth == 1 && last < 3:
			sites[in].redirects = true
		}
		if depth > 0 {
			for _, w := range words {
				sites[in].locations[strings.TrimSuffix(w, "*")] = file
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
	s := serverBlock{file: file, end: end, locations: make(map[string]string)}
	for _, a := range strings.FieldsFunc(strings.Join(addresses, " "), func(r rune) bool { return r == ',' || r == ' ' }) {
		if a == "{" || a[0] == '(' || a[0] == '&' {
			continue
		}
		a, plain := strings.CutPrefix(a, "http://")
		host, _, _ := strings.Cut(strings.TrimPrefix(a, "https://"), "/")
		host, port, _ := strings.Cut(host, ":")
		if port != "" {
			s.ports = append(s.ports, port)
		}
		s.names = append(s.names, host)
		s.isDefault = s.isDefault || host == ""
		s.tls = s.tls || !plain && port != "80"
	}
	return s
}
