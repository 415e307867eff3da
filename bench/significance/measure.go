package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/internal/html"
	"github.com/parleyweb/parley/internal/maintext"
)

// Accuracy is the difference between estimated shares and a count of all words.
type accuracy struct {
	n, exact       int
	squares, worst float64 // relative errors
	order          int     // only the order differs: a count of words gives 0
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
		fmt.Fprintf(out, "  shares compared with an exact count of words, %d pages: %d equal; error relative to the share: %.1f %% (root mean square), %.1f %% at most; %d pages differ in order only\n",
			a.n, a.exact, 100*math.Sqrt(a.squares/float64(a.n)), 100*a.worst, a.order)
	}
}

// cost measures the processor time of each step on the same pages, in turns; the best of each counts, since
// other load on the machine can only slow it down.
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
		{name: "digest and sketch of that text", on: texts, do: func(t []byte) { maintext.Masks(nil).Read(t) }},
		{name: "the same with masks", on: texts, do: func(t []byte) { masks.Read(t) }},
		{name: "comparing two sketches", on: texts, do: func([]byte) { maintext.Share(sketch, other) }},
	}
	for range 5 {
		for i := range steps {
			s := &steps[i]
			began := cost.Processor()
			for _, p := range s.on {
				s.do(p)
			}
			if took := cost.Processor() - began; s.best == 0 || took < s.best {
				s.best = took
			}
		}
	}
	fmt.Fprintf(b.out, "\nCPU time for %d pages, %.1f MB\n", len(pages), float64(size)/1e6)
	for _, s := range steps {
		fmt.Fprintf(b.out, "  %-24s %8.1f us a page %8.0f MB/s of pages\n", s.name,
			float64(s.best.Nanoseconds())/1e3/float64(len(pages)), float64(size)/max(s.best.Seconds(), 1e-6)/1e6)
	}
	fmt.Fprintf(b.out, "  (%d masks)\n", len(masks))
	return nil
}
