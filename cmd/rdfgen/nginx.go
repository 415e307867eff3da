package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A serverBlock is what nginx serves at some names.
type serverBlock struct {
	file string
	end  int // offset in the file behind its server_name, or else its "{": a line may be added there
	root string

	names, includes, ports    []string          // as written
	locations                 map[string]string // the file of each
	tls, isDefault, redirects bool
	onlyNames                 bool // it never serves other names, as nginx's only block does
}

// nginxToken matches a comment, a quoted word, a character that is a word of its own, or any other word, which may have "${"
// in it.
var nginxToken = regexp.MustCompile(`(?s)#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[;{}]|(?:\$\{|\\.|[^\s;{])+`)

var nginxEscapes = strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`, `\t`, "\t", `\r`, "\r", `\n`, "\n")

// wordOf returns the word that a token stands for.
func wordOf(token string) string {
	if strings.ContainsAny(token[:1], `"'`) {
		token = token[1 : len(token)-1]
	}
	return nginxEscapes.Replace(token)
}

// An nginxReader reads nginx's configuration: each included file in the place of its include.
type nginxReader struct {
	dir    string // of nginx.conf: relative includes begin there
	root   string // absolute ones are below it
	edits  []edit // of files that are read
	blocks []serverBlock

	open     []string     // files that are being read
	depth    int          // of blocks
	s        *serverBlock // the current one
	inside   int          // its depth
	location string       // the current one, in it
}

// read reads a file, and returns its text with the edits: an include of edited files is replaced with their text.
func (n *nginxReader) read(file string) (text string, edited bool, err error) {
	if slices.Contains(n.open, file) {
		return "", false, fmt.Errorf("%s includes itself", file)
	}
	n.open = append(n.open, file)
	defer func() { n.open = n.open[:len(n.open)-1] }()
	if i := slices.IndexFunc(n.edits, func(e edit) bool { return e.path == file }); i >= 0 {
		text, edited = n.edits[i].now, true
	} else if b, err := os.ReadFile(file); err != nil {
		return "", false, err
	} else {
		text = string(b)
	}
	var out strings.Builder
	var words []string // of a directive
	begin, done := 0, 0
	for _, at := range nginxToken.FindAllStringIndex(text, -1) {
		switch token := text[at[0]:at[1]]; {
		case token[0] == '#':
			continue
		case token == "}":
			if n.depth--; n.s != nil && n.depth < n.inside {
				if s := n.s; !slices.ContainsFunc(n.blocks, func(b serverBlock) bool { return b.file == s.file && b.end == s.end }) {
					n.blocks = append(n.blocks, *s)
				}
				n.s = nil
			} else if n.depth == n.inside {
				n.location = ""
			}
		case token != ";" && token != "{":
			if len(words) == 0 {
				begin = at[0]
			}
			words = append(words, wordOf(token))
			continue
		case len(words) > 0:
			n.directive(words, token == "{", file, at[1])
			if words[0] == "include" {
				more, changed, err := n.include(words[1:])
				if err != nil {
					return "", false, err
				}
				if changed {
					out.WriteString(text[done:begin] + more)
					done, edited = at[1], true
				}
			}
		}
		words = nil
	}
	return out.String() + text[done:], edited, nil
}

// include reads the files that match the patterns of an include, as glob(3) understands them.
func (n *nginxReader) include(patterns []string) (text string, edited bool, err error) {
	for _, pattern := range patterns {
		named := pattern
		if pattern = within(n.root, pattern); !filepath.IsAbs(pattern) {
			pattern = filepath.Join(n.dir, pattern)
		}
		moved := filepath.IsAbs(named) && pattern != named // nginx itself would look elsewhere
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", false, err
		}
		for _, e := range n.edits { // it may not exist yet
			if ok, _ := filepath.Match(pattern, e.path); ok && !slices.Contains(files, e.path) {
				files = append(files, e.path)
			}
		}
		for _, file := range files {
			if strings.Contains(file, "/.") && !strings.Contains(pattern, "/.") {
				continue // "*" does not match a hidden file
			}
			more, changed, err := n.read(file)
			if err != nil {
				return "", false, err
			}
			text, edited = text+more+"\n", edited || changed || moved
		}
	}
	return text, edited, nil
}

// directive records a directive of a server block, which ends at an offset of the file. opens is true if a block follows.
func (n *nginxReader) directive(words []string, opens bool, file string, end int) {
	name, args := words[0], words[1:]
	if n.s != nil && (n.depth == n.inside || n.location == "/" && name == "root") {
		if name == "location" && len(args) > 0 {
			n.s.locations[args[len(args)-1]] = file
		}
		n.s.take(name, args)
		if name == "server_name" && file == n.s.file {
			n.s.end = end
		}
	}
	if !opens {
		return
	}
	n.depth++
	if name == "server" && n.s == nil {
		n.s, n.inside = &serverBlock{file: file, end: end, locations: make(map[string]string)}, n.depth
	} else if name == "location" && n.depth == n.inside+1 && len(args) > 0 && args[0] != "=" {
		n.location = args[len(args)-1]
	}
}

// take records a directive of the block.
func (s *serverBlock) take(name string, args []string) {
	switch name {
	case "server_name":
		s.names = append(s.names, args...)
	case "root":
		if s.root = strings.Join(args, " "); !filepath.IsAbs(s.root) || strings.Contains(s.root, "$") {
			s.root = "" // which directory that is, only nginx knows
		}
	case "listen":
		s.isDefault = s.isDefault || slices.Contains(args, "default_server")
		for _, at := range args[:min(len(args), 1)] {
			s.ports = append(s.ports, at[strings.LastIndex(at, ":")+1:])
		}
		s.tls = s.tls || slices.Contains(args, "ssl") || slices.Contains(s.ports, "443")
	case "return":
		s.redirects = true
	case "include":
		s.includes = append(s.includes, args...)
	}
}

// serves reports whether one of the names is that of a host; "*.example.org", ".example.org", "www.example.*" and regular
// expressions are for several.
func (s *serverBlock) serves(host string) bool {
	return slices.ContainsFunc(s.names, func(name string) bool {
		if expr, ok := strings.CutPrefix(name, "~"); ok {
			match, err := regexp.MatchString("(?i)"+expr, host)
			return match && err == nil
		}
		below := strings.TrimPrefix(strings.ToLower(name), "*")
		above, any := strings.CutSuffix(below, "*")
		return below == host || strings.HasPrefix(below, ".") && strings.HasSuffix("."+host, below) || any && strings.HasPrefix(host, above)
	})
}

// serving returns the blocks that serve a docroot, or any if it is empty, as a host: those with its name, else the default.
// Of these, if some listen at the port of the URL, or if the site is at https and some have TLS, only those.
func serving(list []serverBlock, host, port, docroot string, https bool) []serverBlock {
	keep := func(list []serverBlock, f func(s serverBlock) bool) (kept []serverBlock) {
		for _, s := range list {
			if f(s) {
				kept = append(kept, s)
			}
		}
		return kept
	}
	if at := keep(list, func(s serverBlock) bool { return slices.Contains(s.ports, port) }); len(at) > 0 { // else something before nginx maps it
		list = at
	}
	found := keep(list, func(s serverBlock) bool { return s.serves(host) })
	if len(found) == 0 {
		found = keep(list, func(s serverBlock) bool {
			return s.isDefault || len(list) == 1 && !s.onlyNames || slices.Contains(s.names, "_")
		})
	}
	found = keep(found, func(s serverBlock) bool {
		return !s.redirects && (docroot == "" || sameDir(s.root, docroot))
	})
	if tls := keep(found, func(s serverBlock) bool { return s.tls }); https && len(tls) > 0 {
		return tls
	}
	return found
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y) || filepath.Clean(a) == filepath.Clean(b)
}
