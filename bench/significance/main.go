// Significance measures, on real versions of a site, how much of what changed
// is news: how many pages differ in their bytes, in their main text, and in
// their main text with the masks that were learned from the first two
// versions; how far the sketches are from an exact count of words; and what
// all that costs beside the SHA-256 that every page pays anyway.
//
//	go run ./bench/significance DIR1 DIR2 [DIR3 ...]   # versions of one site, the oldest first
//
// Versions of Debian packages do well:
//
//	for v in 6.1.187-1 6.1.190-1 6.1.192-1; do
//		apt-get download linux-doc-6.1=$v && dpkg-deb -x linux-doc-6.1_${v}_all.deb $v
//	done
//	go run ./bench/significance {6.1.187-1,6.1.190-1,6.1.192-1}/usr/share/doc/linux-doc-6.1/html
//
// apt-cache policy names the versions that there are. With -whole the text
// of whole pages is compared, menus and all, as if they did not say what their
// main text is: masks have more to do then.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "significance:", err)
		os.Exit(1)
	}
}

// A bench is one run of the program.
type bench struct {
	whole    bool
	versions []string // directories
	out      io.Writer
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("significance", flag.ContinueOnError)
	whole := flags.Bool("whole", false, "compare the text of whole pages")
	share := flags.Float64("min-share", 0.02, "learn masks for what is on this share of the changed pages")
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
	for i := range b.versions[1:] {
		if err := b.compare(b.versions[i], b.versions[i+1], masks); err != nil {
			return err
		}
	}
	return b.cost(b.versions[len(b.versions)-1], masks)
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
	large // changed, and one of the two is larger than is asked for its text
)

// maxPage is the largest page whose changes a site weighs, in bytes.
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

// text is the main text of a page or, with -whole, all text that is no script or form.
func (b *bench) text(page []byte) []byte {
	if b.whole {
		page = structure.ReplaceAllFunc(page, func(m []byte) []byte {
			switch {
			case m[0] != '<':
				return []byte("data-role=")
			case m[1] == '/':
				return []byte("</div")
			}
			return []byte("<div")
		})
	}
	return html.Read("https://example.org/", page, html.Options{Text: true}).Text
}

// A tally is what was found of the significance of changed pages.
type tally struct {
	name  string
	bins  [5]int // 0, below 0.01, below 0.1, below 0.5, up to 1
	above int    // 0
	real  int    // pages whose text differs, compared exactly
}

func (t *tally) add(share float64, differs bool) {
	limits := []float64{0, 0.01, 0.1, 0.5}
	i := 0
	for i < len(limits) && (share > limits[i] || i > 0 && share == limits[i]) {
		i++
	}
	t.bins[i]++
	if share > 0 {
		t.above++
	}
	if differs {
		t.real++
	}
}

// compare prints what changed between two versions, and how much of it matters.
func (b *bench) compare(older, newer string, masks maintext.Masks) error {
	var states [5]int
	tallies := [2]tally{{name: "without masks"}, {name: "with masks"}}
	var sketchBytes, sketches, longest int
	var off accuracy
	for p, err := range b.pairs(older, newer) {
		if err != nil {
			return err
		}
		states[p.state]++
		if p.state != changed {
			continue
		}
		before, after := b.text(p.before), b.text(p.after)
		for i, m := range []maintext.Masks{nil, masks} {
			_, sketch := m.Read(before)
			_, sketch2 := m.Read(after)
			share, _ := maintext.Share(sketch, sketch2)
			x, y := m.Apply(before), m.Apply(after)
			tallies[i].add(share, !bytes.Equal(x, y))
			if i == 1 {
				off.add(share, x, y)
				sketchBytes, sketches, longest = sketchBytes+len(sketch2), sketches+1, max(longest, len(sketch2))
			}
		}
	}
	fmt.Fprintf(b.out, "\n%s -> %s\n  pages: %d the same, %d changed and %d that are too large to be weighed, %d created, %d deleted\n", older, newer,
		states[same], states[changed], states[large], states[created], states[deleted])
	fmt.Fprintf(b.out, "  %-14s %8s %8s %8s %8s %8s %18s %18s\n", "significance", "0", "<0.01", "<0.1", "<0.5", "<=1", "above 0", "text differs")
	for _, t := range tallies {
		fmt.Fprintf(b.out, "  %-14s", t.name)
		for _, n := range t.bins {
			fmt.Fprintf(b.out, " %8d", n)
		}
		fmt.Fprintf(b.out, " %8d = %5.2f %% %8d = %5.2f %%\n", t.above, percent(t.above, states[changed]), t.real, percent(t.real, states[changed]))
	}
	if sketches > 0 {
		fmt.Fprintf(b.out, "  sketches take %.0f bytes a page, %d at most\n", float64(sketchBytes)/float64(sketches), longest)
	}
	off.print(b.out)
	return nil
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// Accuracy is how far estimated shares are from a count of all words.
type accuracy struct {
	n, exact       int
	squares, worst float64 // relative errors
	order          int     // only the order differs: a count of words says 0
}

func (a *accuracy) add(share float64, before, after []byte) {
	if bytes.Equal(before, after) {
		return
	}
	count := map[string]int{}
	all := 0
	for _, w := range bytes.Fields(before) {
		count[string(w)]++
		all++
	}
	for _, w := range bytes.Fields(after) {
		count[string(w)]--
		all++
	}
	differ := 0
	for _, n := range count {
		differ += max(n, -n)
	}
	if differ == 0 {
		a.order++
		return
	}
	off := math.Abs(share*float64(all)-float64(differ)) / float64(differ)
	a.n++
	if off < 1e-9 {
		a.exact++
	}
	a.squares += off * off
	a.worst = max(a.worst, off)
}

func (a *accuracy) print(out io.Writer) {
	if a.n > 0 {
		fmt.Fprintf(out, "  shares beside an exact count of words, %d pages: %d equal; error relative to the share: %.1f %% (root mean square), %.1f %% at most; %d pages differ in order only\n",
			a.n, a.exact, 100*math.Sqrt(a.squares/float64(a.n)), 100*a.worst, a.order)
	}
}

// cost measures the processor time of each step on the same pages, in turns;
// the best of each counts, since what else a machine does can only slow it down.
func (b *bench) cost(dir string, masks maintext.Masks) error {
	names, err := pageNames(dir)
	if err != nil {
		return err
	}
	var pages, texts [][]byte
	size := 0
	for _, name := range names {
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if len(page) > maxPage || size > 64<<20 {
			continue
		}
		pages, texts, size = append(pages, page), append(texts, html.Read("", page, html.Options{Text: true}).Text), size+len(page)
	}
	_, sketch := maintext.Masks(nil).Read(texts[0])
	_, other := maintext.Masks(nil).Read(texts[len(texts)-1])
	steps := []struct {
		name string
		on   [][]byte
		do   func([]byte)
		best time.Duration
	}{
		{name: "SHA-256 of the page", on: pages, do: func(p []byte) { sha256.Sum256(p) }},
		{name: "head", on: pages, do: func(p []byte) { html.Read("", p, html.Options{}) }},
		{name: "head and main text", on: pages, do: func(p []byte) { html.Read("", p, html.Options{Text: true}) }},
		{name: "digest and sketch of it", on: texts, do: func(t []byte) { maintext.Masks(nil).Read(t) }},
		{name: "the same with masks", on: texts, do: func(t []byte) { masks.Read(t) }},
		{name: "comparing two sketches", on: texts, do: func([]byte) { maintext.Share(sketch, other) }},
	}
	for range 5 {
		for i := range steps {
			s := &steps[i]
			began := processorTime()
			for _, p := range s.on {
				s.do(p)
			}
			if took := processorTime() - began; s.best == 0 || took < s.best {
				s.best = took
			}
		}
	}
	fmt.Fprintf(b.out, "\ncost of %d pages, %.1f MB, in processor time\n", len(pages), float64(size)/1e6)
	for _, s := range steps {
		fmt.Fprintf(b.out, "  %-24s %8.1f us a page %8.0f MB/s of pages\n", s.name,
			float64(s.best.Nanoseconds())/1e3/float64(len(pages)), float64(size)/max(s.best.Seconds(), 1e-6)/1e6)
	}
	fmt.Fprintf(b.out, "  (%d masks)\n", len(masks))
	return nil
}
