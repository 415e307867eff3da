package server

import (
	"context"
	"errors"
	"fmt"
)

// An Output is what is written from a journal besides the manifest: a sitemap,
// a feed, an include for the web server. Package server/static has them. One
// that is a fmt.Stringer is called by that name in Status and in errors.
type Output interface {
	// Write brings the output up to the journal, and reports whether it had
	// to. It writes nothing that is there already, also when another process
	// wrote it, and never leaves a torn file. A Publisher calls it after every
	// look, whether or not the journal has moved: who else writes in a docroot
	// may have taken the output away. So it must cost little where there is
	// nothing to do; and what it writes in a docroot leads to another look.
	Write(ctx context.Context, j *Journal) (wrote bool, err error)
}

// OutputStatus is how an Output stands.
type OutputStatus struct {
	Name   string `json:"name"`
	Writes int    `json:"writes"`          // by this process
	Error  string `json:"error,omitempty"` // why the last one failed; empty if it did not
}

// outputState is what a Publisher knows of one of its Outputs.
type outputState struct {
	at      outputAt // when it was written last
	written bool     // it was, by this process
	writes  int
	err     error
}

// outputAt is what makes an output worth another Write when it is not what it
// was: the journal is another, or somebody has looked at the docroot since,
// where the output may be gone.
type outputAt struct {
	revision uint64 // of the journal
	looks    int    // that have ended well
}

// isNow reports whether nothing has happened since the output was written.
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
		// Before it is written: what comes while it is makes it stale.
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
			s.err = fmt.Errorf("write %s: %w", nameOf(o), s.err)
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
		st := OutputStatus{Name: nameOf(o)}
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

func nameOf(o Output) string {
	if s, ok := o.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", o)
}
