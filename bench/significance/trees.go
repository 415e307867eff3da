package main

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/parleyweb/parley/protocol"
)

// This file shares no code with the Publisher's scan: it reads every file of both versions, and keeps both
// trees in memory.

// A tree is the public content of a version: the digest and size of each page, by path with slashes.
type tree map[string]file

type file struct {
	digest protocol.Digest
	size   int64
}

// noIndex matches a page's own request to be left out of indexes.
var noIndex = regexp.MustCompile(`(?i)<meta\s[^>]*(name\s*=\s*["']?robots\b[^>]*noindex|noindex[^>]*name\s*=\s*["']?robots\b)`)

func readTree(dir string) (tree, error) {
	t := make(tree)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != dir && d.Name()[0] == '.' {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() || !isPage(name) {
			return nil
		}
		if ok, err := leadsToFile(dir, name); err != nil || !ok {
			return err
		}
		page, err := os.ReadFile(name)
		if err != nil || filepath.Ext(name) != ".pdf" && noIndex.Match(page) {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		t[filepath.ToSlash(rel)] = file{protocol.Sum(page), int64(len(page))}
		return err
	})
	if err == nil && len(t) == 0 {
		err = fmt.Errorf("%s has no public pages", dir)
	}
	return t, err
}

func isPage(name string) bool {
	return slices.Contains([]string{".html", ".htm", ".xhtml", ".pdf"}, filepath.Ext(name))
}

// leadsToFile reports whether name, which may be a symbolic link, leads to a file below dir.
func leadsToFile(dir, name string) (bool, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false, err
	}
	name, err = filepath.EvalSymlinks(name)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil || !strings.HasPrefix(name, dir+string(filepath.Separator)) {
		return false, err
	}
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular(), err
}

// A fact is what happened to one page between two versions.
type fact struct {
	op     protocol.Op
	from   string // of a move
	digest protocol.Digest
	size   int64 // of the current file
}

func (f fact) String() string {
	switch f.op {
	case "":
		return "nothing"
	case protocol.Delete:
		return "deleted"
	case protocol.Move:
		return fmt.Sprintf("moved from %s, now %d bytes, %x", f.from, f.size, f.digest[:4])
	}
	return fmt.Sprintf("%sd, now %d bytes, %x", f.op, f.size, f.digest[:4])
}

// facts compares two trees. A vanished page and a new page count as a move if they have the same bytes and no
// other vanished or new page has them.
func facts(older, newer tree) map[string]fact {
	all := make(map[string]fact)
	gone, born := make(map[file][]string), make(map[file][]string)
	for place, f := range newer {
		was, ok := older[place]
		switch {
		case !ok:
			all[place] = fact{op: protocol.Create, digest: f.digest, size: f.size}
			born[f] = append(born[f], place)
		case was != f:
			all[place] = fact{op: protocol.Update, digest: f.digest, size: f.size}
		}
	}
	for place, f := range older {
		if _, ok := newer[place]; !ok {
			all[place] = fact{op: protocol.Delete}
			gone[f] = append(gone[f], place)
		}
	}
	for f, to := range born {
		if from := gone[f]; len(to) == 1 && len(from) == 1 && f.size > 0 {
			delete(all, from[0])
			all[to[0]] = fact{op: protocol.Move, from: from[0], digest: f.digest, size: f.size}
		}
	}
	return all
}

// told derives the same facts from the changes of a journal, and returns what is wrong with them.
func told(base string, changes []protocol.Change) (all map[string]fact, wrong []string) {
	all = make(map[string]fact)
	for _, c := range changes {
		f := fact{op: c.Op}
		at, err := placeOf(base, c.Item.URL)
		if err == nil && c.Op == protocol.Move {
			f.from, err = placeOf(base, c.From)
		}
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if c.Op != protocol.Delete {
			f.digest, f.size = c.Item.Digest, c.Item.Length
		}
		if was, twice := all[at]; twice {
			wrong = append(wrong, fmt.Sprintf("%s: published twice: %v, then %v", at, was, f))
		}
		all[at] = f
	}
	return all, wrong
}

// placeOf returns the path of the file that is served at a URL.
func placeOf(base, page string) (string, error) {
	rest, ok := strings.CutPrefix(page, base)
	place, err := url.PathUnescape(rest)
	if !ok || err != nil {
		return "", fmt.Errorf("%s is not a page of %s", page, base)
	}
	if place == "" || strings.HasSuffix(place, "/") {
		place += "index.html"
	}
	return place, nil
}

// differences returns where the published facts differ from the real ones.
func differences(happened, told map[string]fact) (list []string) {
	places := slices.AppendSeq(slices.Collect(maps.Keys(happened)), maps.Keys(told))
	slices.Sort(places)
	for _, p := range slices.Compact(places) {
		if a, b := happened[p], told[p]; a != b {
			list = append(list, fmt.Sprintf("%s: the trees show %v, the journal %v", p, a, b))
		}
	}
	return list
}

// counts returns how many pages were created, updated, deleted and moved.
func counts(all map[string]fact) string {
	n := make(map[protocol.Op]int)
	for _, f := range all {
		n[f.op]++
	}
	return fmt.Sprintf("%d created, %d updated, %d deleted, %d moved", n[protocol.Create], n[protocol.Update], n[protocol.Delete], n[protocol.Move])
}
