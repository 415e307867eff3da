package docroot

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// Most of a scan is waiting for the system to stat files, one by one. So one goroutine lists directories, and
// several others stat their files, a bounded number of files ahead of the goroutine that compares them.
const (
	describers = 4   // more than processors, since they wait for a cold disk
	batches    = 16  // being listed, described or compared at one time
	batchSize  = 512 // files, of some hundred bytes each
	stampSize  = 40  // bytes: few stamps are longer
)

// A batch is some files of one directory, and the offers made of them.
type batch struct {
	dir   *walkDir
	open  *sharedDir // nil if there are no files
	files []file     // files with one URL are adjacent, and in one batch
	links map[string]string

	urls   strings.Builder // the memory for the URLs of out
	stamps []byte          // has room for more stamps of out

	out  []said
	done chan struct{} // holds a token once out is complete
}

// said is one result of a walk.
type said struct {
	offer inventory.Offer
	real  string // path below the root without symbolic links, if it was described
	err   error
}

// ahead is the part of a walk that runs ahead of the consumer. Its list and all that this calls run in one
// goroutine, which alone uses files and links.
type ahead struct {
	walk *walk
	pipeline
	end   context.CancelFunc
	ended sync.WaitGroup
	err   error // why the walk ended; read once order is closed

	files []file // of the current directory
	links map[string]string
}

// A pipeline carries batches from the goroutine that lists directories to those that describe files, and to the
// consumer of the walk.
type pipeline struct {
	ctx   context.Context // of the walk; also ended by ahead.stop
	order chan *batch     // to be yielded, in order; closed at the end
	work  chan *batch     // to be described
	free  chan *batch     // free for use; its bound keeps sends to order and work from blocking
	cur   *batch          // being filled by the goroutine that lists
}

// lookAhead begins to list the directories of starts, which are ordered. The caller must call stop.
func (w *walk) lookAhead(ctx context.Context, starts []*walkDir) *ahead {
	a := &ahead{walk: w, pipeline: pipeline{order: make(chan *batch, batches), work: make(chan *batch, batches), free: make(chan *batch, batches)}}
	a.ctx, a.end = context.WithCancel(ctx)
	for range batches {
		a.free <- &batch{done: make(chan struct{}, 1)}
	}
	a.ended.Go(func() {
		a.err = a.list(starts)
		close(a.work)
		close(a.order)
	})
	for range describers {
		a.ended.Go(func() {
			for b := range a.work {
				if a.ctx.Err() == nil {
					w.describe(b)
				}
				b.open.release()
				b.done <- struct{}{}
			}
		})
	}
	return a
}

// stop ends the goroutines of lookAhead, and waits for them.
func (a *ahead) stop() {
	a.end()
	a.ended.Wait()
}

// giveBack frees a batch that has been yielded.
func (p *pipeline) giveBack(b *batch) {
	clear(b.out)
	*b = batch{files: b.files[:0], out: b.out[:0], done: b.done}
	p.free <- b
}

// list lists all directories, level by level.
func (a *ahead) list(starts []*walkDir) error {
	var level []*walkDir
	for len(level) > 0 || len(starts) > 0 {
		depth := 0
		if len(level) > 0 {
			depth = protocol.Depth(level[0].prefix)
		}
		joined := false
		for len(starts) > 0 && (len(level) == 0 || protocol.Depth(starts[0].prefix) <= depth) {
			depth = protocol.Depth(starts[0].prefix)
			level, starts, joined = append(level, starts[0]), starts[1:], true
		}
		if joined {
			slices.SortFunc(level, func(a, b *walkDir) int { return strings.Compare(a.prefix, b.prefix) })
		}
		var next []*walkDir
		for i, d := range level {
			var err error
			if next, err = a.dir(d, next); err != nil {
				return err
			}
			level[i] = nil
		}
		level = next
	}
	return a.send()
}

// batch returns the batch that is being filled.
func (p *pipeline) batch() (*batch, error) {
	if p.cur == nil {
		select {
		case p.cur = <-p.free:
		case <-p.ctx.Done():
			return nil, p.ctx.Err()
		}
	}
	return p.cur, nil
}

// send hands on the batch that is being filled.
func (p *pipeline) send() error {
	b := p.cur
	if b == nil {
		return nil
	}
	p.cur = nil
	p.order <- b
	if b.open != nil {
		p.work <- b
	} else {
		b.done <- struct{}{}
	}
	return p.ctx.Err()
}

// say appends a result that needs no stat.
func (p *pipeline) say(s said) error {
	b, err := p.batch()
	if err != nil {
		return err
	}
	if b.out = append(b.out, s); len(b.out) >= batchSize {
		return p.send()
	}
	return nil
}

// sendFiles hands on the files of a directory, which are sorted.
func (a *ahead) sendFiles(d *walkDir, open *sharedDir) error {
	for i := 0; i < len(a.files); {
		j := i + 1
		for j < len(a.files) && (j-i < batchSize || a.files[j].tail == a.files[j-1].tail) {
			j++
		}
		b, err := a.batch()
		if err != nil {
			return err
		}
		b.dir, b.open, b.links = d, open, a.links
		b.files = append(b.files, a.files[i:j]...)
		open.users.Add(1)
		if err := a.send(); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// A sharedDir is an open directory, closed by its last user.
type sharedDir struct {
	*os.File
	users atomic.Int32
}

func share(f *os.File) *sharedDir {
	s := &sharedDir{File: f}
	s.users.Add(1)
	return s
}

func (s *sharedDir) release() {
	if s.users.Add(-1) == 0 {
		s.Close()
	}
}
