package ping

import (
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Status is the status of an IndexNow.
type Status struct {
	Base    string         `json:"base"`
	Key     KeyStatus      `json:"key"`
	Engines []EngineStatus `json:"engines"`
}

// A KeyStatus is the status of the key. The key is no secret: everybody can read
// its file.
type KeyStatus struct {
	Key  string    `json:"key,omitempty"`  // empty: none has been made yet
	URL  string    `json:"url,omitempty"`  // of the key's file
	File string    `json:"file,omitempty"` // in KeyDir; empty if there is none
	Made time.Time `json:"made,omitzero"`

	// Seen is when the site was found to serve the key. Zero means not yet.
	Seen time.Time `json:"seen,omitzero"`
}

// An EngineStatus is the status of one engine.
type EngineStatus struct {
	Name     string          `json:"name"`
	Endpoint string          `json:"endpoint"`
	Cursor   protocol.Cursor `json:"cursor"` // all changes up to it have been processed
	Behind   uint64          `json:"behind"` // changes after it, where that is known

	Pending  int       `json:"pending"`          // URLs to be sent
	Refused  int       `json:"refused"`          // of these, URLs that the engine has refused: they are sent again after 20 minutes or more
	Oldest   time.Time `json:"oldest,omitzero"`  // when the oldest pending URL became pending
	NextAt   time.Time `json:"next_at,omitzero"` // when the next batch may be sent
	Accepted int64     `json:"accepted"`         // URLs, in total

	AcceptedAt time.Time `json:"accepted_at,omitzero"` // when a batch was accepted last

	// Key is the state of the key at the engine; empty means unknown.
	Key KeyState `json:"key,omitempty"`

	// Trouble says, for people, why the engine accepts nothing now, and what to do.
	// Failures counts the failures in a row; RetryAt is the time of the next attempt.
	Trouble  string    `json:"trouble,omitempty"`
	Failures int       `json:"failures,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`

	Last    *Outcome  `json:"last,omitempty"`    // of the newest batch
	Results []Outcome `json:"results,omitempty"` // of the newest 20 batches, oldest first
}

// Status returns the sender's status. Run may be running or not. It writes
// nothing, and so makes no key.
func (s *IndexNow) Status() (Status, error) {
	if err := s.init(); err != nil {
		return Status{}, err
	}
	st := Status{Base: s.Options.Base}
	var err error
	if st.Key, err = s.key.status(); err != nil {
		return st, err
	}
	now := s.Options.now()
	for _, e := range s.engines {
		e.mu.Lock()
		loaded := e.loaded
		e.mu.Unlock()
		if !loaded { // nobody runs it
			e = &engine{o: e.o, key: e.key, name: e.name, endpoint: e.endpoint, prefix: e.prefix}
			if err := e.load(); err != nil {
				return st, err
			}
		}
		st.Engines = append(st.Engines, e.status(now))
	}
	return st, nil
}

func (e *engine) status(now time.Time) EngineStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := EngineStatus{Name: e.name, Endpoint: e.endpoint, Cursor: e.state.Cursor, Accepted: e.state.Accepted, AcceptedAt: e.state.At, Key: e.state.Key,
		Trouble: e.state.Trouble, Failures: e.state.Failures, Results: e.state.Results}
	if head := e.o.Journal.Head(); head.Epoch == st.Cursor.Epoch && head.Seq > st.Cursor.Seq {
		st.Behind = head.Seq - st.Cursor.Seq
	}
	for _, o := range e.urls {
		if o.due.IsZero() {
			continue
		}
		st.Pending++
		if o.refused > 0 {
			st.Refused++
		}
		if st.Oldest.IsZero() || o.since.Before(st.Oldest) {
			st.Oldest = o.since
		}
		if st.NextAt.IsZero() || o.due.Before(st.NextAt) {
			st.NextAt = o.due
		}
	}
	if !over(e.state.RetryAt, now, longestHint) {
		st.RetryAt = e.state.RetryAt
		if st.Pending > 0 && st.NextAt.Before(st.RetryAt) {
			st.NextAt = st.RetryAt
		}
	}
	if n := len(st.Results); n > 0 {
		last := st.Results[n-1]
		st.Last = &last
	}
	return st
}
