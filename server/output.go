package server

import (
	"context"
	"errors"
	"fmt"
)

// An Output is a file or files written from a journal besides the manifest: a sitemap,
// a feed, an include for the web server. Package internal/site/static has them.
type Output interface {
	// String is its name in Status and in errors.
	String() string

	// Own returns the files that it writes and that a site must not publish as pages, for
	// [Site.Own].
	Own() []string

	// Write brings the output up to the journal, and reports whether it wrote. It
	// does not rewrite an output that is up to date, even if another process wrote it,
	// and never leaves a torn file. A Publisher calls it after every scan, whether or
	// not the journal has changed: another program may have removed the output from the
	// docroot. So it must be cheap if there is nothing to do; and what it writes in a
	// docroot causes another scan.
	Write(ctx context.Context, j *Journal) (wrote bool, err error)
}

// OutputStatus is the state of an Output.
type OutputStatus struct {
	Name   string `json:"name"`
	Writes int    `json:"writes"`          // by this process
	Error  string `json:"error,omitempty"` // why the last write failed; empty if it did not
}

// outputState is what a Publisher knows about one of its Outputs.
type outputState struct {
	at      outputAt // as of the last write
	written bool     // this process has written it
	writes  int
	err     error
}

// outputAt decides whether an output needs another Write: it does if the journal
// has changed since the last one, or a scan has succeeded since, after which the
// output may be missing from the docroot.
type outputAt struct {
	revision uint64 // of the journal
	looks    int    // number of successful scans
}

// isNow reports whether nothing has happened since the last write.
func (s outputState) isNow(at outputAt) bool { return s.written && s.at == at }

// writeOutputs writes every output that is behind the journal, in order.
func (p *Publisher) writeOutputs(ctx context.Context) (wrote bool, err error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if !p.Journal.Whole() {
		return false, nil
	}
	var errs []error
	for i, o := range p.Outputs {
		// Read before the write: a change during the write makes the output stale.
		at := outputAt{revision: p.Journal.Revision()}
		p.mu.Lock()
		at.looks = p.status.Looks
		p.outputs = append(p.outputs, make([]outputState, len(p.Outputs)-len(p.outputs))...)
		s := p.outputs[i]
		p.mu.Unlock()
		if s.isNow(at) {
			continue
		}
		var did bool
		if did, s.err = o.Write(ctx, p.Journal); s.err != nil {
			s.err = fmt.Errorf("write %s: %w", o, s.err)
			errs = append(errs, s.err)
		} else {
			s.at, s.written = at, true
		}
		if did {
			wrote = true
			s.writes++
		}
		p.mu.Lock()
		p.outputs[i] = s
		p.mu.Unlock()
	}
	return wrote, errors.Join(errs...)
}

func (p *Publisher) areOutputsWritten() bool {
	if len(p.Outputs) == 0 || !p.Journal.Whole() {
		return true
	}
	at := outputAt{revision: p.Journal.Revision()}
	p.mu.Lock()
	defer p.mu.Unlock()
	at.looks = p.status.Looks
	for _, s := range p.outputs {
		if !s.isNow(at) {
			return false
		}
	}
	return len(p.outputs) == len(p.Outputs)
}

// outputStatus describes the outputs. p.mu is held.
func (p *Publisher) outputStatus() []OutputStatus {
	var list []OutputStatus
	for i, o := range p.Outputs {
		st := OutputStatus{Name: o.String()}
		if i < len(p.outputs) {
			st.Writes = p.outputs[i].writes
			if err := p.outputs[i].err; err != nil {
				st.Error = err.Error()
			}
		}
		list = append(list, st)
	}
	return list
}
