package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A directive is one of nginx's configuration, with those of its block.
type directive struct {
	args  []string    // its name first
	block []directive // nil if it has no block
	file  string
	end   int // offset in the file, behind its ";", or behind the "{" of its block
}

// maxIncludes bounds how deep files include each other.
const maxIncludes = 10

// readNginx reads a configuration file of nginx, and the files that it includes, whose names are relative to dir. What is
// included stands behind the directive that includes it.
func readNginx(file, dir string, depth int) ([]directive, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := nginxReader{file: file, dir: dir, text: string(text), depth: depth}
	list, err := r.block(false)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return list, nil
}

// An nginxReader reads one file.
type nginxReader struct {
	file, dir, text string
	at, depth       int
}

// block reads directives until the end of the block, or of the file.
func (r *nginxReader) block(inner bool) ([]directive, error) {
	list := []directive{}
	var args []string
	for {
		word, kind := r.next()
		switch {
		case kind == 'w':
			args = append(args, word)
			continue
		case kind == 0 && !inner && args == nil, kind == '}' && inner && args == nil:
			return list, nil
		case kind == 0 || kind == '}' || args == nil:
			return nil, fmt.Errorf("unexpected end of a block, or of a directive, at byte %d", r.at)
		}
		d := directive{args: args, file: r.file, end: r.at}
		args = nil
		if kind == '{' {
			var err error
			if d.block, err = r.block(true); err != nil {
				return nil, err
			}
		}
		if list = append(list, d); d.args[0] == "include" && len(d.args) == 2 {
			more, err := r.include(d.args[1])
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
		}
	}
}

func (r *nginxReader) include(pattern string) (list []directive, err error) {
	if r.depth == maxIncludes {
		return nil, fmt.Errorf("more than %d files include each other", maxIncludes)
	}
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(r.dir, pattern)
	}
	files, err := filepath.Glob(pattern)
	for _, file := range files {
		more, err := readNginx(file, r.dir, r.depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, err
}

// next returns the next word, of kind 'w', or one of the characters that are words of their own; kind 0 is the end.
func (r *nginxReader) next() (word string, kind byte) {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r', '\n':
		case '#':
			for r.at+1 < len(r.text) && r.text[r.at+1] != '\n' {
				r.at++
			}
		case ';', '{', '}':
			r.at++
			return "", c
		case '"', '\'':
			from := r.at + 1
			for r.at++; r.at < len(r.text) && r.text[r.at] != c; r.at++ {
				if r.text[r.at] == '\\' {
					r.at++
				}
			}
			word = r.text[min(from, len(r.text)):min(r.at, len(r.text))]
			r.at++
			return word, 'w'
		default:
			from := r.at
			for ; r.at < len(r.text) && !strings.ContainsRune(" \t\r\n;", rune(r.text[r.at])); r.at++ {
				if c := r.text[r.at]; c == '\\' {
					r.at++
				} else if c == '{' && r.text[r.at-1] != '$' { // "${" begins a variable
					break
				}
			}
			r.at = min(r.at, len(r.text))
			return r.text[from:r.at], 'w'
		}
	}
	return "", 0
}

// A serverBlock is what nginx serves at some names.
type serverBlock struct {
	names     []string
	root      string
	tls       bool
	isDefault bool
	redirects bool
	locations []string  // patterns
	includes  []string  // as written
	place     directive // a line may be added behind it
}

// serverBlocks returns the server blocks of a configuration. root is that of the block around it.
func serverBlocks(list []directive, root string) (found []serverBlock) {
	for _, d := range list {
		if d.args[0] == "root" && len(d.args) == 2 {
			root = d.args[1]
		}
	}
	for _, d := range list {
		switch {
		case d.args[0] == "http":
			found = append(found, serverBlocks(d.block, root)...)
		case d.args[0] == "server" && d.block != nil:
			found = append(found, serverBlockOf(d, root))
		}
	}
	return found
}

func serverBlockOf(block directive, root string) serverBlock {
	s := serverBlock{root: root, place: block}
	for _, d := range block.block {
		switch args := d.args[1:]; d.args[0] {
		case "server_name":
			s.names = append(s.names, args...)
			if d.file == block.file {
				s.place = d
			}
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
			s.locations = append(s.locations, args[len(args)-1:]...)
			for _, in := range d.block {
				if in.args[0] == "root" && len(args) > 0 && args[len(args)-1] == "/" {
					s.root = strings.Join(in.args[1:], " ")
				}
			}
		}
	}
	return s
}

// serves reports whether one of the names is that of a host; "*.example.org" and ".example.org" are for hosts below it.
func (s *serverBlock) serves(host string) bool {
	return slices.ContainsFunc(s.names, func(name string) bool {
		name = strings.ToLower(name)
		below, isWild := strings.CutPrefix(name, "*")
		return name == host || isWild && strings.HasSuffix(host, below) || strings.HasPrefix(name, ".") && (strings.HasSuffix(host, name) || host == name[1:])
	})
}

// serving returns the blocks that serve a docroot, if it is not empty, as a host: those with its name, else the default.
// Of these, if the site is at https and some have TLS, only those.
func serving(list []serverBlock, host, docroot string, https bool) []serverBlock {
	keep := func(list []serverBlock, f func(s *serverBlock) bool) []serverBlock {
		return slices.DeleteFunc(slices.Clone(list), func(s serverBlock) bool { return !f(&s) })
	}
	found := keep(list, func(s *serverBlock) bool { return s.serves(host) })
	if len(found) == 0 {
		found = keep(list, func(s *serverBlock) bool { return s.isDefault || len(list) == 1 || slices.Contains(s.names, "_") })
	}
	found = keep(found, func(s *serverBlock) bool {
		return s.root != "" && !s.redirects && (docroot == "" || sameDir(s.root, docroot))
	})
	if tls := keep(found, func(s *serverBlock) bool { return s.tls }); https && len(tls) > 0 {
		return tls
	}
	return found
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y) || filepath.Clean(a) == filepath.Clean(b)
}
