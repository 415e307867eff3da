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
	// wrote it, and never leaves a torn file.
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
	revision uint64 // of the journal, when it was written last
	written  bool   // it was, by this process
	writes   int
	err      error
}

// isNow reports whether the output is that of the journal's present revision.
func (s outputState) isNow(revision uint64) bool { return s.written && s.revision == revision }

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
		revision := p.Journal.Revision()
		p.mu.Lock()
		p.outputs = append(p.outputs, make([]outputState, len(p.Outputs)-len(p.outputs))...)
		s := p.outputs[i]
		p.mu.Unlock()
		if s.isNow(revision) {
			continue
		}
		var did bool
		if did, s.err = o.Write(ctx, p.Journal); s.err != nil {
			s.err = fmt.Errorf("write %s: %w", nameOf(o), s.err)
			errs = append(errs, s.err)
		} else {
			s.revision, s.written = revision, true
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
	revision := p.Journal.Revision()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.outputs {
		if !s.isNow(revision) {
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
