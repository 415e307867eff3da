package compare

import (
	"context"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/protocol"
)

// A comparison must close its view of the journal to append, and then seek its place again, which takes a
// second in a million entries. So it gathers steps up to flushAfter, which take some 20 MB, or for flushTime,
// so that followers hear of a long rebuild while it goes on.
const (
	flushAfter = 32 * protocol.MaxBatch
	flushTime  = 5 * time.Second
)

// steps are what a comparison has decided. They are appended to the journal many at a time.
type steps struct {
	scan    *Scan
	left    *entries       // paused before each append: a journal cannot grow while a view is open
	pending []journal.Step // not appended yet
	flushed time.Time      // when steps were last appended; wall-clock time
	broken  bool           // an append has failed

	giving, given int // announced entries that the pending steps and the appended ones replace
}

func (s *steps) add(x journal.Step) { s.pending = append(s.pending, x) }

// Deletion returns the step that removes a page.
func Deletion(url string) journal.Step {
	return journal.Step{Op: protocol.Delete, Entry: journal.Entry{Item: protocol.Item{URL: url, Length: -1}}}
}

// replaces counts an announced entry that the next step replaces.
func (s *steps) replaces(e journal.Entry) {
	if IsAnnounced(e) {
		s.giving++
	}
}

// flushFull flushes when enough steps have gathered.
func (s *steps) flushFull(ctx context.Context) error {
	if n := len(s.pending); n < protocol.MaxBatch || !s.left.end && n < flushAfter && time.Since(s.flushed) < flushTime {
		return nil
	}
	return s.flush(ctx)
}

// flush appends all pending steps, in transactions of bounded size.
func (s *steps) flush(ctx context.Context) error {
	s.left.pause()
	tells := func(x journal.Step) bool { return x.Op != "" }
	if s.scan.Journal.Whole() && slices.ContainsFunc(s.pending, tells) {
		if err := s.scan.WriteMark(); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(s.pending, protocol.MaxBatch) {
		if _, err := s.scan.Journal.Append(ctx, batch); err != nil {
			s.broken = true
			return err
		}
	}
	s.given, s.giving = s.given+s.giving, 0
	clear(s.pending)
	s.pending, s.flushed = s.pending[:0], time.Now()
	return nil
}
