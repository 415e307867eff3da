// Delta publishes one version of a site, and then the next, and requests the delta of each page that changed.
// It prints the sizes of the deltas beside the page compressed with gzip -6, their cost, and how many are
// right: according to our own reader, and to the zstd program, which is independent of Parley. If any is
// wrong, the exit code is 1.
//
// It also measures the cost of keeping versions for a site: of the first scan, without versions; of storing
// the current pages; and of the scan that finds the new version.
//
//	go run ./bench/delta OLD NEW   # versions of one site
//
// Versions of Debian packages are suitable:
//
//	for v in 6.1.170-3 6.1.176-1; do
//		apt-get download linux-doc-6.1=$v && dpkg-deb -x linux-doc-6.1_${v}_all.deb $v
//	done
//	go run ./bench/delta {6.1.170-3,6.1.176-1}/usr/share/doc/linux-doc-6.1/html
//
// apt-cache madison lists the available versions.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/program"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/manifest"
	"github.com/parleyweb/parley/server/versions"
)

func main() { program.Main("delta", run) }

const base = "https://www.example.org/"

// A site is a docroot with everything built on it.
type site struct {
	dir       string
	files     *server.Site
	journal   *server.Journal
	publisher *server.Publisher
	store     *versions.Store // nil if none is kept
}

// open starts to publish dir/www, with a state of its own.
func open(ctx context.Context, dir, state string, keep bool) (*site, error) {
	s := &site{dir: dir, files: &server.Site{Docroot: filepath.Join(dir, "www"), Base: base}}
	var err error
	if s.journal, err = server.OpenJournal(ctx, filepath.Join(dir, state, "state"), server.JournalOptions{Base: base}); err != nil {
		return nil, err
	}
	snapshot := &manifest.Snapshot{Path: filepath.Join(dir, state, "robots.rdf"), Manifest: doors.Describe(base), Public: s.files.Public}
	s.publisher = &server.Publisher{Inventory: s.files, Journal: s.journal, Snapshot: snapshot}
	if keep {
		s.store = &versions.Store{Dir: filepath.Join(dir, state, "versions"), Journal: s.journal, Open: s.files.OpenPage, Public: s.files.Public}
		s.publisher.Inventory = s.store.Keeping(s.files)
	}
	return s, nil
}

func (s *site) look(ctx context.Context) (rep inventory.Report, c cost.Cost, err error) {
	c, err = cost.Of(func() error { rep, err = s.publisher.Turn(ctx); return err })
	return rep, c, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("name the directories of two versions, the older first")
	}
	dir, err := os.MkdirTemp("", "parley-delta-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	www := filepath.Join(dir, "www")
	if err := os.CopyFS(www, os.DirFS(args[0])); err != nil {
		return err
	}
	var s *site
	for round, name := range []string{"warm", "without", "with"} {
		if s, err = open(ctx, dir, name, name == "with"); err != nil {
			return err
		}
		defer s.journal.Close()
		rep, c, err := s.look(ctx)
		if err != nil {
			return err
		}
		if round > 0 {
			fmt.Fprintf(out, "first scan, %s a version store: %d pages, %v\n", name, rep.New, c)
		}
	}
	c, err := cost.Of(func() error { return s.store.Fill(ctx) })
	if err != nil {
		return err
	}
	st := s.store.Stats()
	fmt.Fprintf(out, "filling the version store: %d versions, %.1f MB on disk, %v\n", st.Versions, float64(st.Bytes)/1e6, c)
	at := s.journal.Head()
	if err := errors.Join(os.RemoveAll(www), os.CopyFS(www, os.DirFS(args[1]))); err != nil {
		return err
	}
	rep, c, err := s.look(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "scan of the new version, storing as many pages as time allows: %v, %v\n", rep, c)
	return compare(ctx, s, at, out)
}

// A result holds the sizes of one page.
type result struct {
	page, gzip, delta int
	none              bool // no delta is small enough to be useful
}

func (r result) share() float64 {
	if r.none {
		return 1
	}
	return float64(r.delta) / float64(r.gzip)
}

// compare requests the delta of each page that was updated after a cursor.
func compare(ctx context.Context, s *site, at protocol.Cursor, out io.Writer) error {
	tool, err := exec.LookPath("zstd")
	if err != nil {
		tool = ""
	}
	var results []result
	var deltas, gzips time.Duration
	ours, theirs, wrong := 0, 0, 0
	for {
		changes, err := s.journal.Read(ctx, at, protocol.MaxBatch)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			break
		}
		at.Seq = changes[len(changes)-1].Seq
		for i := range changes {
			c := &changes[i]
			if c.Op != protocol.Update {
				continue
			}
			var delta []byte
			d, err := cost.Of(func() error { delta, err = s.store.Delta(ctx, &c.Item, c.Prev); return err })
			r := result{none: errors.Is(err, content.ErrNoVersion), delta: len(delta)}
			if err != nil && !r.none {
				return err
			}
			page, err := s.store.Page(ctx, &c.Item, 1<<30)
			if err != nil {
				return err
			}
			was, err := s.store.Version(ctx, &protocol.Item{URL: c.Item.URL, Digest: c.Prev, Length: -1}, 1<<30)
			if err != nil && !r.none {
				return err
			}
			g, err := cost.Of(func() error { r.gzip, err = gzipped(page); return err })
			if err != nil {
				return err
			}
			deltas, gzips = deltas+d.CPU, gzips+g.CPU
			r.page = len(page)
			results = append(results, r)
			if r.none {
				continue
			}
			if got, err := coding.ApplyDelta(was, delta, int64(len(page))); err == nil && bytes.Equal(got, page) {
				ours++
			} else {
				wrong++
			}
			if tool != "" {
				if got, err := byTool(ctx, tool, s.dir, was, delta); err == nil && bytes.Equal(got, page) {
					theirs++
				} else {
					wrong++
				}
			}
		}
	}
	if len(results) == 0 {
		return errors.New("no page differs")
	}
	table(out, results)
	n := float64(len(results))
	fmt.Fprintf(out, "CPU time per page: %.2f ms for the delta (both versions read, checked, compared with gzip), %.2f ms for gzip -6\n",
		1000*deltas.Seconds()/n, 1000*gzips.Seconds()/n)
	fmt.Fprintf(out, "correct deltas by Parley's decoder: %d; by the zstd program: ", ours)
	if tool == "" {
		fmt.Fprintln(out, "not installed")
	} else {
		fmt.Fprintln(out, theirs)
	}
	if wrong > 0 {
		return fmt.Errorf("%d deltas are wrong", wrong)
	}
	return nil
}

// table prints the sizes.
func table(out io.Writer, results []result) {
	none := 0
	var pages, gzips, deltas, shares []float64
	for _, r := range results {
		pages, gzips, shares = append(pages, float64(r.page)), append(gzips, float64(r.gzip)), append(shares, 100*r.share())
		if r.none {
			none++
			deltas = append(deltas, float64(r.gzip))
			continue
		}
		deltas = append(deltas, float64(r.delta))
	}
	fmt.Fprintf(out, "changed pages: %d; without a useful delta: %d\n", len(results), none)
	fmt.Fprintf(out, "%-28s %10s %10s %12s\n", "", "median", "p90", "sum")
	for _, l := range []struct {
		name string
		list []float64
	}{{"page, bytes", pages}, {"gzip -6, bytes", gzips}, {"delta (dcz), bytes", deltas}} {
		fmt.Fprintf(out, "%-28s %10.0f %10.0f %12.0f\n", l.name, quantile(l.list, 0.5), quantile(l.list, 0.9), sum(l.list))
	}
	fmt.Fprintf(out, "%-28s %10.2f %10.2f %12.2f\n", "delta, % of gzip", quantile(shares, 0.5), quantile(shares, 0.9), 100*sum(deltas)/sum(gzips))
}

func quantile(list []float64, q float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[int(q*float64(len(list)-1)+0.5)]
}

func sum(list []float64) (s float64) {
	for _, x := range list {
		s += x
	}
	return s
}

// gzipped returns the size of a page as most web servers send it. It uses the standard library, so that no
// part of Parley measures itself.
func gzipped(page []byte) (int, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, 6)
	if err != nil {
		return 0, err
	}
	_, err = z.Write(page)
	err = errors.Join(err, z.Close())
	return b.Len(), err
}

// byTool applies a delta with the zstd program.
func byTool(ctx context.Context, tool, dir string, was, delta []byte) ([]byte, error) {
	name := filepath.Join(dir, "base")
	if err := os.WriteFile(name, was, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, tool, "-dcq", "--patch-from="+name)
	cmd.Stdin = bytes.NewReader(delta[coding.DeltaHeader:])
	return cmd.Output()
}
