package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A rival is a row: a crawling program with certain options.
type rival struct {
	name string
	ours string                             // the program to build first, if it is one of ours
	args func(s *site, dir string) []string // the command that crawls a site, with dir for its files
	runs []*outcome                         // one for each round
}

// wget2 stores the pages as files. It does not request robots.txt, since there is none, and does not write
// its other files beside the pages.
func (b *bench) wget2(threads int) *rival {
	return &rival{
		name: fmt.Sprintf("wget2, %s", connections(threads)),
		args: func(s *site, dir string) []string {
			return []string{"wget2", "--no-config", "--quiet", "--recursive", "--level=inf", "--no-robots", "--no-xattr", "--no-hsts", "--no-hpkp",
				"--no-ocsp", "--tries=1", "--ignore-tags=img,link,script", fmt.Sprintf("--max-threads=%d", threads),
				"--no-host-directories", "--directory-prefix=" + dir, s.bases[0]}
		},
	}
}

// reference stores nothing.
func (b *bench) reference(workers int) *rival {
	return &rival{
		name: fmt.Sprintf("net/http + x/net tokenizer, %s", connections(workers)),
		ours: "reference",
		args: func(s *site, dir string) []string {
			return []string{b.program("reference"), "-workers", fmt.Sprint(workers), s.bases[0]}
		},
	}
}

// list fetches a given list of pages, of all hosts in turn.
func (b *bench) list(workers int, pages []string) *rival {
	return &rival{
		name: fmt.Sprintf("net/http, a list, %s", connections(workers)),
		ours: "reference",
		args: func(s *site, dir string) []string {
			var list strings.Builder
			for _, p := range pages {
				for _, base := range s.bases {
					list.WriteString(strings.TrimSuffix(base, "/") + p + "\n")
				}
			}
			name := filepath.Join(b.dir, "list")
			os.WriteFile(name, []byte(list.String()), 0o644) // without it the row fails
			return []string{b.program("reference"), "-workers", fmt.Sprint(workers), "-list", name}
		},
	}
}

// parley is our crawler, with a way to store contents, and a coding for them.
func (b *bench) parley(what, store, coding string, options ...string) *rival {
	return &rival{
		name: "Parley, " + what,
		ours: "crawler",
		args: func(s *site, dir string) []string {
			return slices.Concat([]string{b.program("crawler"), "crawl"}, s.bases, []string{"--into", filepath.Join(dir, "collection"),
				"--store", store, "--coding", coding, "--wait", "0", "--allow-private", "--max-file", "16MB", "--per-site", "1000000"}, options, b.extra)
		},
	}
}

func connections(n int) string {
	if n == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

// command returns the rival's command, with a home directory of its own, so that the user's configuration has
// no effect.
func (r *rival) command(s *site, dir string) *exec.Cmd {
	args := r.args(s, dir)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	return cmd
}
