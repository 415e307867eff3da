package ping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// A place is the position of one receiver in the journal, and the state of sending to it: a note, which is
// changed in durable transactions.
type place struct {
	journal *server.Journal
	log     *slog.Logger // names the receiver
	note    string       // its key, which begins with the kind of sender

	turn      sync.Mutex   // one Run or Turn at a time
	unsettled func() error // see engine

	mu     sync.Mutex // guards the fields below, for Status; they change only with turn held
	loaded bool
	state  pingState
}

// what returns the kind of sender, which begins errors and messages.
func (p *place) what() string { return p.note[:strings.IndexByte(p.note, '/')] }

// pingState is the note of a place.
type pingState struct {
	Started  time.Time       `json:"started"`
	Cursor   protocol.Cursor `json:"cursor"` // the receiver has accepted all changes up to it
	PingedAt time.Time       `json:"pinged_at,omitzero"`
	Pings    int64           `json:"pings,omitempty"`    // accepted
	Changes  int64           `json:"changes,omitempty"`  // in them; of hooks only
	Failures int             `json:"failures,omitempty"` // in a row
	RetryAt  time.Time       `json:"retry_at,omitzero"`
	Status   int             `json:"status,omitempty"` // of the newest answer
	Trouble  string          `json:"trouble,omitempty"`
}

// follow calls step until ctx ends: at the time that it returned or, if that is zero, when the journal has
// changes and they have gathered for a while.
func (p *place) follow(ctx context.Context, gather time.Duration, step func(context.Context) (time.Time, error)) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	for {
		at, err := step(ctx)
		if err == nil && at.IsZero() {
			if err = p.journal.Wait(ctx, p.state.Cursor); err == nil {
				pause.For(ctx, gather)
			}
		}
		switch {
		case ctx.Err() != nil:
			if err := p.settle(); err != nil {
				p.log.Error(p.what()+": the last delivery could not be recorded: it will be repeated", "err", err)
			}
			return nil
		case errors.Is(err, fs.ErrClosed):
			return fmt.Errorf("%s: %w", p.what(), err)
		case err != nil:
			p.log.Error(p.what()+": the journal could not be used", "err", err, "again_in", again)
			pause.For(ctx, again)
		case !at.IsZero():
			pause.For(ctx, time.Until(at))
		}
	}
}

// accepted records that the receiver accepted everything up to a cursor: so many changes, where they are counted.
func (p *place) accepted(at protocol.Cursor, changes, status int) error {
	return p.commit(func(st *pingState) {
		st.Cursor, st.PingedAt, st.Status = at, time.Now(), status
		st.Failures, st.RetryAt, st.Trouble = 0, time.Time{}, ""
		st.Pings++
		st.Changes += int64(changes)
	})
}

// failed records that the receiver accepted nothing, and returns the time of the next attempt.
func (p *place) failed(trouble string, status int, wait time.Duration) (time.Time, error) {
	if p.state.Trouble != trouble {
		p.log.Warn(p.what()+": "+trouble, "again_in", wait.Round(time.Second))
	}
	err := p.commit(func(st *pingState) {
		st.Failures++
		st.RetryAt, st.Trouble, st.Status = time.Now().Add(wait), trouble, status
	})
	return p.state.RetryAt, err
}

// current returns the state, whether or not the sender is running.
func (p *place) current() (pingState, error) {
	p.mu.Lock()
	st, loaded := p.state, p.loaded
	p.mu.Unlock()
	if loaded {
		return st, nil
	}
	return p.read()
}

func (p *place) read() (st pingState, err error) {
	b, err := p.journal.Note(p.note)
	if err == nil && b != nil {
		if err = json.Unmarshal(b, &st); err != nil {
			err = fmt.Errorf("note %s: %w", p.note, err)
		}
	}
	return st, err
}

// commit changes the state durably, and in memory once that has succeeded.
func (p *place) commit(change func(*pingState)) error {
	st := p.state
	change(&st)
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	p.unsettled = func() error {
		if err := p.journal.SetNotes(map[string][]byte{p.note: b}); err != nil {
			return err
		}
		p.mu.Lock()
		p.state = st
		p.mu.Unlock()
		return nil
	}
	return p.settle()
}

// settle repeats a commit that failed, and loads the stored state.
func (p *place) settle() error {
	if p.unsettled != nil {
		if err := p.unsettled(); err != nil {
			return err
		}
		p.unsettled = nil
	}
	if p.loaded {
		return nil
	}
	st, err := p.read()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.state, p.loaded = st, true
	p.mu.Unlock()
	return nil
}
