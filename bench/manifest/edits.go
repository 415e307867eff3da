package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/site/static"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/manifest"
)

// edit measures what an edit costs in a site of n items whose manifest is written after each, as one file and in parts:
// the cost of many edits, in which those of merging and folding change parts are contained. Beside the parts stands a
// sitemap, which is written after each edit, too. The edits in parts are spread evenly over a time, if that is not zero.
func edit(ctx context.Context, n, edits int, over time.Duration, out io.Writer) error {
	dir, err := os.MkdirTemp("", "parley-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	j, err := journal.Open(filepath.Join(dir, "state"), nil)
	if err != nil {
		return err
	}
	defer j.Close()
	var steps []journal.Step
	for it := range items(n) {
		if steps = append(steps, journal.Step{Op: protocol.Create, Entry: journal.Entry{Item: it}}); len(steps) == protocol.MaxBatch {
			if _, err := j.Append(ctx, steps); err != nil {
				return err
			}
			steps = steps[:0]
		}
	}
	if _, err := j.Append(ctx, steps); err != nil {
		return err
	}
	if err := j.EndBaseline(); err != nil {
		return err
	}
	goals := goal.Sheet{Out: out}
	var whole int64 // bytes of the one file, compressed
	fmt.Fprintf(out, "%-9s %8s %12s %12s %12s %12s %12s %12s\n", "", "edits", "CPU ms", "worst CPU", "wall ms", "worst wall", "MB written", "MB on disk")
	for _, side := range []struct {
		name         string
		parts, edits int
		over         time.Duration
	}{{"one file", 0, max(1, edits/300), 0}, {"in parts", 1, edits, over}} {
		s := &manifest.Snapshot{Path: filepath.Join(dir, side.name, "robots.rdf"), Parts: side.parts, Manifest: head(n)}
		if err := os.Mkdir(filepath.Dir(s.Path), 0o755); err != nil {
			return err
		}
		sitemap := &static.Sitemap{Path: filepath.Join(dir, side.name, "sitemap.xml"), Base: base}
		var before int64     // bytes on disk
		var mapped cost.Cost // of the sitemap; Memory is the bytes that were written
		row := func(what string, edits int, work func() error) error {
			var worst, worstCPU, all time.Duration
			cpu, wrote, begin := cost.Processor(), written(), time.Now()
			for i := range edits {
				if err := pause.Sleep(ctx, time.Until(begin.Add(side.over*time.Duration(i)/time.Duration(edits)))); err != nil {
					return err
				}
				one, used := time.Now(), cost.Processor()
				if err := work(); err != nil {
					return err
				}
				took := time.Since(one)
				worst, all, worstCPU = max(worst, took), all+took, max(worstCPU, cost.Processor()-used)
			}
			each, disk := 1/float64(edits), onDisk(filepath.Dir(s.Path))
			usedEach, wroteEach := (cost.Processor()-cpu).Seconds()*1e3*each, float64(written()-wrote)/1e6*each
			fmt.Fprintf(out, "%-9s %8s %12.1f %12.0f %12.1f %12.0f %12.2f %12.0f\n", side.name, what, usedEach, worstCPU.Seconds()*1e3,
				all.Seconds()*1e3*each, worst.Seconds()*1e3, wroteEach, float64(disk)/1e6)
			if edits > 1 && side.parts > 0 {
				goals.AtMost(50, usedEach, "ms of CPU for an edit among %d items: manifest in parts and sitemap", n)
				goals.AtMost(2, wroteEach, "MB written for an edit among %d items: manifest in parts and sitemap", n)
				goals.AtMost(1.3, float64(disk)/float64(before), "bytes on disk after %d edits / before", edits)
				if side.over > 0 {
					goals.AtMost(1, worst.Seconds(), "s until the worst edit among %d items is in manifest and sitemap", n)
				}
				fmt.Fprintf(out, "of this the sitemap: %.1f ms of CPU and %.2f MB written for an edit\n", mapped.CPU.Seconds()*1e3*each, float64(mapped.Memory)/1e6*each)
			}
			before, mapped = disk, cost.Cost{}
			return nil
		}
		write := func() error {
			if _, err := s.Write(ctx, j); err != nil || side.parts == 0 {
				return err
			}
			cpu, wrote := cost.Processor(), written()
			_, err := sitemap.Write(ctx, j)
			mapped.CPU, mapped.Memory = mapped.CPU+cost.Processor()-cpu, mapped.Memory+written()-wrote
			return err
		}
		if err := row("first", 1, write); err != nil {
			return err
		}
		if side.parts == 0 {
			if whole, err = gzipped(s.Path); err != nil {
				return err
			}
		} else {
			share, err := sent(out, "first contact", s.Path, protocol.Cursor{}, whole)
			if err != nil {
				return err
			}
			goals.AtMost(1.05, share, "bytes of a first contact / those of one file, compressed")
		}
		first := j.Head()
		next := 0
		if err := row(fmt.Sprint(side.edits), side.edits, func() error {
			next++
			it := protocol.Item{URL: fmt.Sprintf("%sreference/chapter-%08d/index.en.html", base, next*7919%n), Type: "text/html", Length: 1,
				Digest: protocol.Sum(fmt.Append(nil, side.name, next)), Modified: epoch}
			if _, err := j.Append(ctx, []journal.Step{{Op: protocol.Create, Entry: journal.Entry{Item: it}}}); err != nil {
				return err
			}
			return write()
		}); err != nil {
			return err
		}
		if side.parts > 0 {
			share, err := sent(out, fmt.Sprint("update after ", side.edits, " edits"), s.Path, first, whole)
			if err != nil {
				return err
			}
			if side.edits <= n/1000 {
				goals.AtMost(0.01, share, "bytes of an update after %d edits / those of one file, compressed", side.edits)
			}
		}
	}
	return goals.Err()
}

// sent prints the bytes that a reader with this cursor receives of a manifest in parts: the index, uncompressed and
// compressed, and the compressed parts. It returns them, with the uncompressed index, as a share of one file, compressed.
func sent(out io.Writer, what, path string, at protocol.Cursor, whole int64) (share float64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	m, err := protocol.ReadManifestHead(f, protocol.ManifestOptions{URL: base + "robots.rdf"})
	if err != nil {
		return 0, err
	}
	need := m.Whole.Changed
	if !m.Whole.Covers(at) {
		need = append(need, m.Whole.Parts...)
	}
	index, err := f.Stat()
	if err != nil {
		return 0, err
	}
	packed, err := gzipped(path)
	if err != nil {
		return 0, err
	}
	var parts int64
	for _, p := range need {
		if p.Seq <= at.Seq && p.After > 0 {
			continue
		}
		name := filepath.Join(filepath.Dir(path), strings.TrimPrefix(p.URL, base))
		info, err := os.Stat(name + ".gz")
		if err != nil { // a short part has no compressed copy
			info, err = os.Stat(name)
		}
		if err != nil {
			return 0, err
		}
		parts += info.Size()
	}
	ratio := func(index int64) float64 { return 100 * float64(index+parts) / float64(whole) }
	fmt.Fprintf(out, "%s: an index of %d bytes (%d compressed) and %d bytes of compressed parts: %.2f %% (%.2f %%) of the %d bytes of one file, compressed\n",
		what, index.Size(), packed, parts, ratio(index.Size()), ratio(packed), whole)
	return ratio(index.Size()) / 100, nil
}

// gzipped returns the length of a file, compressed.
func gzipped(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var n counted
	z := coding.NewGzip(&n)
	if _, err := io.Copy(z, f); err != nil {
		return 0, err
	}
	err = z.Close()
	return int64(n), err
}

// counted counts the bytes written to it.
type counted int64

func (n *counted) Write(b []byte) (int, error) {
	*n += counted(len(b))
	return len(b), nil
}

// written returns the bytes that this process has written so far; 0 where the system does not say.
func written() (n int64) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "wchar: ")
	fmt.Sscan(rest, &n)
	return n
}

// onDisk returns the bytes of all files below a directory.
func onDisk(dir string) (n int64) {
	filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
