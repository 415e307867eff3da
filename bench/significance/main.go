// Significance publishes real versions of a site, one after the other, and checks the published changes. A
// docroot is switched from each version to the next, once by a copy that preserves no dates, once by swapping
// a symbolic link; the changes that a Publisher publishes must be exactly those that a comparison of all
// files of both versions finds. If not, the exit code is 1.
//
// It measures how many changes are significant: how many pages differ in their bytes, in their main text, and
// in their main text with the masks learned from the first two versions. It also measures the error of the
// sketches compared with an exact count of words, and the cost of all that beside the SHA-256 that every page
// needs anyway.
//
//	go run ./bench/significance DIR1 DIR2 [DIR3 ...]   # versions of one site, the oldest first
//
// Versions of Debian packages are suitable:
//
//	for v in 6.1.187-1 6.1.190-1 6.1.192-1; do
//		apt-get download linux-doc-6.1=$v && dpkg-deb -x linux-doc-6.1_${v}_all.deb $v
//	done
//	go run ./bench/significance {6.1.187-1,6.1.190-1,6.1.192-1}/usr/share/doc/linux-doc-6.1/html
//
// apt-cache policy lists the available versions. With -whole the text of whole pages is compared, including
// menus, as if the pages did not mark their main text: then masks have more effect.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/protocol"
)

func main() { program.Main("significance", run) }

// A bench is one run of the program.
type bench struct {
	whole    bool
	versions []string // directories
	out      io.Writer
	wrong    int // changes that were published wrongly or not at all
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("significance", flag.ContinueOnError)
	whole := flags.Bool("whole", false, "compare the text of whole pages")
	share := flags.Float64("min-share", 0.02, "learn masks for text that occurs on at least this share of the changed pages")
	cost := flags.Bool("cost", true, "also measure the cost of each step")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := &bench{whole: *whole, versions: flags.Args(), out: out}
	if len(b.versions) < 2 {
		return errors.New("name the directories of two versions or more, the oldest first")
	}
	var failed error
	learner := maintext.Learner{MinShare: *share}
	lesson := learner.Learn(func(yield func(before, after []byte) bool) {
		for p, err := range b.pairs(b.versions[0], b.versions[1]) {
			if err != nil {
				failed = err
				return
			}
			if p.state == changed && !yield(b.text(p.before), b.text(p.after)) {
				return
			}
		}
	})
	if failed != nil {
		return failed
	}
	var patterns []string
	fmt.Fprintf(out, "masks learned from the first two versions: %d\n", len(lesson.Proposals))
	for _, p := range lesson.Proposals {
		patterns = append(patterns, p.Pattern)
		fmt.Fprintf(out, "  on %d of %d changed pages: %s\n", p.Pages, lesson.Changed, p.Pattern)
	}
	masks, err := maintext.ParseMasks(patterns)
	if err != nil {
		return err
	}
	if err := b.follow(ctx, masks); err != nil {
		return err
	}
	if *cost {
		if err := b.cost(b.versions[len(b.versions)-1], masks); err != nil {
			return err
		}
	}
	if b.wrong > 0 {
		return fmt.Errorf("%d differences between the published and the real changes", b.wrong)
	}
	return nil
}

// follow publishes one version after the other, and compares each with the one before it.
func (b *bench) follow(ctx context.Context, masks maintext.Masks) error {
	dir, err := os.MkdirTemp("", "parley-significance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	pubs, err := b.publications(dir, masks)
	if err != nil {
		return err
	}
	var older tree
	for i, version := range b.versions {
		newer, err := readTree(version)
		if err != nil {
			return err
		}
		for _, root := range docroots(dir) {
			if err := root.put(root.path, version); err != nil {
				return err
			}
		}
		editions := make([]edition, len(pubs))
		for k, p := range pubs {
			if editions[k], err = p.publish(ctx, newer); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
		if i == 0 {
			fmt.Fprintf(b.out, "\n%s\n  pages: %d\n", version, len(newer))
		} else if err := b.compare(b.versions[i-1], version, masks, facts(older, newer), pubs, editions); err != nil {
			return err
		}
		for k, p := range pubs {
			b.report(p, editions[k])
		}
		older = newer
	}
	return nil
}

// report prints how a publication found its changes, and what is wrong with them.
func (b *bench) report(p *publication, e edition) {
	fmt.Fprintf(b.out, "  %s: %s%d runs, %.1f s, %d files read again with unchanged bytes, %d differences\n", p, e.said, e.turns, e.took.Seconds(), e.again, len(e.problems))
	for _, problem := range e.problems {
		fmt.Fprintf(b.out, "    WRONG: %s\n", problem)
	}
	b.wrong += len(e.problems)
}

// A pair is a page in two versions.
type pair struct {
	name          string
	state         state
	before, after []byte
}

type state int

const (
	same state = iota
	changed
	created
	deleted
	large // changed, and one of the two is too large for its text to be read
)

// maxPage is the largest page, in bytes, for which a site computes the significance of a change.
const maxPage = 2 << 20

// pairs reads all pages of two versions, and compares them byte by byte.
func (b *bench) pairs(older, newer string) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		names, err := pageNames(older)
		more, err2 := pageNames(newer)
		if err = errors.Join(err, err2); err != nil {
			yield(pair{}, err)
			return
		}
		names = append(names, more...)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			before, err := os.ReadFile(filepath.Join(older, name))
			after, err2 := os.ReadFile(filepath.Join(newer, name))
			p := pair{name, same, before, after}
			switch {
			case errors.Is(err, fs.ErrNotExist):
				p.state, err = created, nil
			case errors.Is(err2, fs.ErrNotExist):
				p.state, err2 = deleted, nil
			case bytes.Equal(before, after):
			case len(before) > maxPage || len(after) > maxPage:
				p.state = large
			default:
				p.state = changed
			}
			if !yield(p, errors.Join(err, err2)) {
				return
			}
		}
	}
}

func pageNames(dir string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".html" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		return err
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s has no .html files", dir)
	}
	return names, err
}

var structure = regexp.MustCompile(`(?i)(</?)(nav|header|footer|aside|main|article)\b|\brole=`)

// text returns the main text of a page or, with -whole, all text outside scripts and forms.
func (b *bench) text(page []byte) []byte {
	return html.Read(base, b.shape(page), html.Options{Text: true}).Text
}

// shape returns a page or, with -whole, the page without the markup that distinguishes its main text.
func (b *bench) shape(page []byte) []byte {
	if !b.whole {
		return page
	}
	return structure.ReplaceAllFunc(page, func(m []byte) []byte {
		switch {
		case m[0] != '<':
			return []byte("data-role=")
		case m[1] == '/':
			return []byte("</div")
		}
		return []byte("<div")
	})
}

// A tally counts changed pages by significance.
type tally struct {
	name    string
	bins    [5]int // 0, below 0.01, below 0.1, below 0.5, up to 1
	above   int    // 0
	unknown int
	real    int // pages whose text differs, compared exactly; -1 if they were not compared
}

func (t *tally) add(s protocol.Significance) {
	share, known := s.Share()
	if !known {
		t.unknown++
		return
	}
	limits := []float64{0, 0.01, 0.1, 0.5}
	i := 0
	for i < len(limits) && (share > limits[i] || i > 0 && share == limits[i]) {
		i++
	}
	t.bins[i]++
	if share > 0 {
		t.above++
	}
}

func (t *tally) print(out io.Writer, of int) {
	fmt.Fprintf(out, "  %-24s", t.name)
	for _, n := range append(t.bins[:], t.unknown) {
		fmt.Fprintf(out, " %8d", n)
	}
	fmt.Fprintf(out, " %8d = %6.2f %%", t.above, percent(t.above, of))
	if t.real >= 0 {
		fmt.Fprintf(out, " %8d = %6.2f %%", t.real, percent(t.real, of))
	}
	fmt.Fprintln(out)
}

// target is the goal: the percentage of pages published as changed that may count as news once masks were
// learned.
const target = 5

// compare prints what changed between two versions, and how significant it is, as computed by this program
// and as published.
func (b *bench) compare(older, newer string, masks maintext.Masks, happened map[string]fact, pubs []*publication, editions []edition) error {
	var states [5]int
	computed := [2]tally{{name: "both texts, no masks"}, {name: "both texts, masks"}}
	weighed := [2]map[string]protocol.Significance{{}, {}}
	var sketchBytes, sketches, longest int
	var off accuracy
	for p, err := range b.pairs(older, newer) {
		if err != nil {
			return err
		}
		states[p.state]++
		if p.state == large {
			for i := range weighed {
				computed[i].add(0)
				weighed[i][filepath.ToSlash(p.name)] = 0
			}
		}
		if p.state != changed {
			continue
		}
		before, after := b.text(p.before), b.text(p.after)
		for i, m := range []maintext.Masks{nil, masks} {
			_, sketch := m.Read(before)
			_, sketch2 := m.Read(after)
			share, known := maintext.Share(sketch, sketch2)
			x, y := m.Apply(before), m.Apply(after)
			var s protocol.Significance
			switch differs := !bytes.Equal(x, y); {
			case !differs:
				s = protocol.SignificanceOf(0)
			case known:
				s = protocol.SignificanceOf(max(share, 0.001))
				fallthrough
			default:
				computed[i].real++
			}
			computed[i].add(s)
			weighed[i][filepath.ToSlash(p.name)] = s
			if i == 1 {
				off.add(share, x, y)
				sketchBytes, sketches, longest = sketchBytes+len(sketch2), sketches+1, max(longest, len(sketch2))
			}
		}
	}
	fmt.Fprintf(b.out, "\n%s -> %s\n  pages: %d unchanged, %d changed and %d too large for a significance, %d created, %d deleted\n", older, newer,
		states[same], states[changed], states[large], states[created], states[deleted])
	fmt.Fprintf(b.out, "  a comparison of all files: %s\n", counts(happened))
	journals := [2]tally{{name: "journal, no masks", real: -1}, {name: "journal, masks", real: -1}}
	reported := 0
	for k, p := range pubs {
		e := &editions[k]
		m := 0
		if p.masked {
			m = 1
		}
		said, wrong := told(base, e.changes)
		e.problems = append(append(e.problems, wrong...), differences(happened, said)...)
		e.said = "published " + counts(said) + "; "
		for _, c := range e.changes {
			if c.Op != protocol.Update {
				continue
			}
			if k < len(journals) { // of the first docroot
				journals[m].add(c.Significance)
				reported += 1 - m
			}
			at, err := placeOf(base, c.Item.URL)
			if want, ok := weighed[m][at]; err == nil && ok && want != c.Significance {
				e.problems = append(e.problems, fmt.Sprintf("%s: the journal's significance is %s, computed from both texts %s", at, shareOf(c.Significance), shareOf(want)))
			}
		}
	}
	fmt.Fprintf(b.out, "  %-24s %8s %8s %8s %8s %8s %8s %19s %19s\n", "significance", "0", "<0.01", "<0.1", "<0.5", "<=1", "unknown", "above 0", "text differs")
	for _, t := range append(computed[:], journals[:]...) {
		t.print(b.out, reported)
	}
	met := "met"
	news := journals[1].above + journals[1].unknown
	if percent(news, reported) > target {
		met = "MISSED"
	}
	fmt.Fprintf(b.out, "  of %d pages published as updated, significance above 0 without masks: %d = %.2f %%, with masks: %d = %.2f %%, and %d unknown; target %d %%: %s\n", reported,
		journals[0].above, percent(journals[0].above, reported), journals[1].above, percent(journals[1].above, reported), journals[1].unknown, target, met)
	if sketches > 0 {
		fmt.Fprintf(b.out, "  sketches take %.0f bytes a page, %d at most\n", float64(sketchBytes)/float64(sketches), longest)
	}
	off.print(b.out)
	return nil
}

func shareOf(s protocol.Significance) string {
	share, known := s.Share()
	if !known {
		return "unknown"
	}
	return fmt.Sprint(share)
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
