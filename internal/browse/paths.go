package browse

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/coding"
)

// The bounds of recorded paths.
const (
	maxPathLine  = 1 << 20 // bytes
	maxPathViews = 10_000
	maxNames     = 1 << 22
	maxLinks     = 1 << 26
)

// Paths reads the click paths of Wikispeedia (West and Leskovec 2012) from a directory: links.tsv, and paths_finished.tsv or
// paths_unfinished.tsv or both, each plain or with the extension gz or zst. A page's level in a session is 0 for the first one, and else one
// more than the least of the pages before it that link to it (section 5.2), as of its first view; a back click "<" views the page before
// again.
func Paths(ctx context.Context, dir string) (*Visits, error) {
	p := &paths{ids: map[string]uint32{}, links: map[[2]uint32]bool{}}
	found := 0
	for _, name := range []string{"links.tsv", "paths_finished.tsv", "paths_unfinished.tsv"} {
		line := p.session
		if name == "links.tsv" {
			line = p.link
		}
		err := readLines(ctx, filepath.Join(dir, name), line)
		switch {
		case err == nil:
			found++
		case !errors.Is(err, fs.ErrNotExist) || name == "links.tsv":
			return nil, err
		}
	}
	if found < 2 {
		return nil, fmt.Errorf("read paths %s: there is neither paths_finished.tsv nor paths_unfinished.tsv", dir)
	}
	return &p.visits, nil
}

// readLines calls a function with the fields of each line that is not empty or a comment.
func readLines(ctx context.Context, name string, line func([]string) error) (err error) {
	var f *os.File
	for _, ext := range []string{".gz", ".zst", ""} { // the last error is about the plain name
		if f, err = os.Open(name + ext); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("read paths: %w", err)
	}
	defer f.Close()
	r, err := coding.NewReader(f)
	if err != nil {
		return fmt.Errorf("read paths %s: %w", f.Name(), err)
	}
	defer r.Close()
	lines, n := bufio.NewScanner(r), 0
	lines.Buffer(nil, maxPathLine)
	for err == nil && lines.Scan() {
		n++
		if text := strings.TrimSuffix(lines.Text(), "\r"); text != "" && text[0] != '#' {
			err = cmp.Or(line(strings.Split(text, "\t")), ctx.Err())
		}
	}
	if err = cmp.Or(err, lines.Err()); err != nil {
		return fmt.Errorf("read paths %s: line %d: %w", f.Name(), n, err)
	}
	return nil
}

// paths are the links and the sessions read so far.
type paths struct {
	ids    map[string]uint32
	links  map[[2]uint32]bool
	visits Visits
}

func (p *paths) id(name string) uint32 {
	id, ok := p.ids[name]
	if !ok {
		id = uint32(len(p.ids))
		p.ids[strings.Clone(name)] = id
	}
	return id
}

func (p *paths) link(fields []string) error {
	switch {
	case len(fields) != 2:
		return errors.New("want two articles, with a tab between")
	case len(p.ids) >= maxNames || len(p.links) >= maxLinks:
		return fmt.Errorf("more than %d articles or %d links", maxNames, maxLinks)
	}
	p.links[[2]uint32{p.id(fields[0]), p.id(fields[1])}] = true
	return nil
}

func (p *paths) session(fields []string) error {
	if len(fields) < 4 || fields[3] == "" {
		return errors.New("want an address, a time, a duration and a path, with tabs between")
	}
	views := strings.Split(fields[3], ";")
	if len(views) > maxPathViews || len(p.ids) >= maxNames {
		return fmt.Errorf("more than %d views, or %d articles", maxPathViews, maxNames)
	}
	var before, seen []uint32 // the pages to which back clicks lead, and all
	var levels []int
	at := map[uint32]int{}
	for i, name := range views {
		if name == "<" {
			if len(before) < 2 {
				return fmt.Errorf("view %d is a back click, and there is no page to go back to", i+1)
			}
			before = before[:len(before)-1]
			levels = append(levels, at[before[len(before)-1]])
			continue
		}
		page := p.id(name)
		if _, ok := at[page]; !ok {
			level := 0
			if i > 0 { // the page before links to it, even if the list of links does not have that
				level = levels[i-1] + 1
			}
			for _, s := range seen {
				if at[s] < level-1 && p.links[[2]uint32{s, page}] {
					level = at[s] + 1
				}
			}
			at[page] = level
			seen = append(seen, page)
		}
		before, levels = append(before, page), append(levels, at[page])
	}
	p.visits.Add(levels)
	return nil
}
