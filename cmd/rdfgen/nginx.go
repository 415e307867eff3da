package main

import (
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

	names, locations, includes []string // as written
	tls, isDefault, redirects  bool
}

// nginxToken matches a comment, a quoted word, a character that is a word of its own, or any other word, which may have "${"
// in it.
var nginxToken = regexp.MustCompile(`(?s)#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[;{}]|(?:\$\{|\\.|[^\s;{])+`)

// readNginx returns the server blocks of nginx's configuration: the file conf, and those that it includes, directly or not.
// What is included within a server block is not taken for a part of it.
func readNginx(conf string) (found []serverBlock, err error) {
	files := []string{conf}
	for i := 0; i < len(files); i++ {
		text, err := os.ReadFile(files[i])
		if err != nil {
			return nil, err
		}
		blocks, includes := parseNginx(files[i], string(text))
		found = append(found, blocks...)
		for _, pattern := range includes {
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(conf), pattern)
			}
			more, err := filepath.Glob(pattern)
			if err != nil {
				return nil, err
			}
			files = append(files, slices.DeleteFunc(more, func(file string) bool { return slices.Contains(files, file) })...)
		}
	}
	return found, nil
}

func parseNginx(file, text string) (found []serverBlock, includes []string) {
	var words []string // of a directive
	depth := 0         // of blocks
	var s *serverBlock // the current one
	inside := 0        // its depth
	location := ""     // the current one, in it
	for _, at := range nginxToken.FindAllStringIndex(text, -1) {
		switch token := text[at[0]:at[1]]; {
		case token[0] == '#':
			continue
		case token == "}":
			if depth--; s != nil && depth < inside {
				found, s = append(found, *s), nil
			} else if depth == inside {
				location = ""
			}
		case token != ";" && token != "{":
			words = append(words, strings.Trim(token, `"'`))
			continue
		case len(words) > 0:
			name, args := words[0], words[1:]
			if name == "include" {
				includes = append(includes, args...)
			}
			if s != nil && (depth == inside || location == "/" && name == "root") {
				s.take(name, args)
				if name == "server_name" {
					s.end = at[1]
				}
			}
			if token == "{" {
				depth++
				if name == "server" && s == nil {
					s, inside = &serverBlock{file: file, end: at[1]}, depth
				} else if name == "location" && depth == inside+1 && len(args) > 0 {
					location = args[len(args)-1]
				}
			}
		}
		words = nil
	}
	return found, includes
}

// take records a directive of the block.
func (s *serverBlock) take(name string, args []string) {
	switch name {
	case "server_name":
		s.names = append(s.names, args...)
	case "root":
		s.root = strings.Join(args, " ")
	case "listen":
		s.isDefault = s.isDefault || slices.Contains(args, "default_server")
		s.tls = s.tls || slices.Contains(args, "ssl") || len(args) > 0 && (args[0] == "443" || strings.HasSuffix(args[0], ":443"))
	case "return":
		s.redirects = true
	case "include":
		s.includes = append(s.includes, args...)
	case "location":
		s.locations = append(s.locations, args...)
	}
}

// serves reports whether one of the names is that of a host; "*.example.org" and ".example.org" are for hosts below it too.
func (s *serverBlock) serves(host string) bool {
	return slices.ContainsFunc(s.names, func(name string) bool {
		below := strings.TrimPrefix(strings.ToLower(name), "*")
		return below == host || strings.HasPrefix(below, ".") && strings.HasSuffix("."+host, below)
	})
}

// serving returns the blocks that serve a docroot, or any if it is empty, as a host: those with its name, else the default.
// Of these, if the site is at https and some have TLS, only those.
func serving(list []serverBlock, host, docroot string, https bool) []serverBlock {
	keep := func(list []serverBlock, f func(s serverBlock) bool) (kept []serverBlock) {
		for _, s := range list {
			if f(s) {
				kept = append(kept, s)
			}
		}
		return kept
	}
	found := keep(list, func(s serverBlock) bool { return s.serves(host) })
	if len(found) == 0 {
		found = keep(list, func(s serverBlock) bool { return s.isDefault || len(list) == 1 || slices.Contains(s.names, "_") })
	}
	found = keep(found, func(s serverBlock) bool {
		return s.root != "" && !s.redirects && (docroot == "" || sameDir(s.root, docroot))
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
