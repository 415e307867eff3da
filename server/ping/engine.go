package ping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// An engine is one search engine, with a cursor and an outbox of its own.
type engine struct {
	s        *IndexNow
	name     string
	endpoint string
	prefix   string // of its notes, ending in "/"

	turn sync.Mutex // one Run or Turn at a time

	// unsettled, if not nil, puts into the journal what could not be put
	// there: nothing else is done before it has succeeded. Guarded by turn.
	unsettled func() error

	// early says that this sender was there before the journal had a head, so
	// that every change of it is news. Guarded by turn.
	early bool

	mu     sync.Mutex // guards what follows, for Status; it changes in a turn only
	loaded bool
	state  engineState
	urls   map[string]owed // by URL, as in the notes
}

// engineState is the note "state" of an engine.
type engineState struct {
	Started time.Time       `json:"started"`
	Cursor  protocol.Cursor `json:"cursor"`         // everything up to it has been taken in...
	Walk    *walk           `json:"walk,omitempty"` // ...but for what this has yet to pass

	Limit    int       `json:"limit,omitempty"`    // URLs in the next batch, 0 for the most
	Alone    int       `json:"alone,omitempty"`    // URLs refused alone since the last that was accepted
	Failures int       `json:"failures,omitempty"` // in a row
	RetryAt  time.Time `json:"retry_at,omitzero"`  // nothing is sent before
	Trouble  string    `json:"trouble,omitempty"`  // why
	Key      KeyState  `json:"key,omitempty"`
	Burned   string    `json:"burned,omitempty"` // the key that is
	Accepted int64     `json:"accepted,omitempty"`
	Results  []Outcome `json:"results,omitempty"`
}

// A walk takes in all that is present, instead of changes that cannot be read.
type walk struct {
	After string `json:"after,omitempty"` // the page that it passed last
}

// owed is what is known of one URL: that it is to be sent, or was sent lately.
type owed struct {
	due     time.Time // when it may be sent; zero if it need not be
	sent    time.Time // when it was; zero if not within the debounce
	since   time.Time // when it began to be due
	fresh   bool      // it was created after the engine was last told of it
	refused int       // how often the engine refused it alone
}

func (o owed) note() []byte {
	n := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return fmt.Appendf(nil, "%d %d %d %t %d", n(o.due), n(o.sent), n(o.since), o.fresh, o.refused)
}

// parseOwed reads what note wrote. What it cannot read is due: it is better
// sent once too often than never.
func parseOwed(b []byte, now time.Time) owed {
	f := strings.Fields(string(b))
	if len(f) != 5 {
		return owed{due: now, since: now}
	}
	var bad bool
	at := func(s string) time.Time {
		n, err := strconv.ParseInt(s, 10, 64)
		if bad = bad || err != nil; err != nil || n == 0 {
			return time.Time{}
		}
		return time.UnixMilli(n)
	}
	o := owed{due: at(f[0]), sent: at(f[1]), since: at(f[2])}
	fresh, err1 := strconv.ParseBool(f[3])
	refused, err2 := strconv.Atoi(f[4])
	if bad || err1 != nil || err2 != nil || refused < 0 {
		return owed{due: now, since: now}
	}
	o.fresh, o.refused = fresh, refused
	return o
}

// load reads the notes, once.
func (e *engine) load() error {
	if e.loaded {
		return nil
	}
	now := e.s.now()
	var st engineState
	urls := make(map[string]owed)
	err := e.s.Journal.EachNote(e.prefix, func(k string, v []byte) error {
		k = strings.TrimPrefix(k, e.prefix)
		if url, ok := strings.CutPrefix(k, "url/"); ok {
			urls[url] = parseOwed(v, now)
		} else if k == "state" {
			if err := json.Unmarshal(v, &st); err != nil {
				return fmt.Errorf("note %s%s: %w", e.prefix, k, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.state, e.urls, e.loaded = st, urls, true
	e.mu.Unlock()
	return nil
}

// commit changes the state, and what is known of URLs (the zero owed forgets
// one), in one durable transaction, and in memory once that has succeeded.
func (e *engine) commit(urls map[string]owed, change func(*engineState)) error {
	st := e.state
	change(&st)
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	notes := map[string][]byte{e.prefix + "state": b}
	for url, o := range urls {
		if (o == owed{}) {
			notes[e.prefix+"url/"+url] = nil
		} else {
			notes[e.prefix+"url/"+url] = o.note()
		}
	}
	e.unsettled = func() error {
		if err := e.s.Journal.SetNotes(notes); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.state = st
		for url, o := range urls {
			if (o == owed{}) {
				delete(e.urls, url)
			} else {
				e.urls[url] = o
			}
		}
		return nil
	}
	return e.settle()
}

// settle makes durable what is not yet, and loads what was.
func (e *engine) settle() error {
	if e.unsettled != nil {
		if err := e.unsettled(); err != nil {
			return err
		}
		e.unsettled = nil
	}
	return e.load()
}

func (e *engine) full() bool { return len(e.urls) >= e.s.room }

// takeIn takes in what the journal has after the cursor, as far as there is
// room, and forgets what is not needed any more. It returns the number of
// changes, or of pages walked over.
func (e *engine) takeIn(ctx context.Context) (n int, err error) {
	if err := e.forget(); err != nil {
		return 0, err
	}
	for !e.full() {
		if e.state.Started.IsZero() {
			if started, err := e.start(); err != nil || !started {
				return n, err
			}
		}
		changes, err := e.s.Journal.Read(ctx, e.state.Cursor, protocol.MaxBatch)
		switch {
		case errors.Is(err, protocol.ErrEpoch), errors.Is(err, protocol.ErrTooOld):
			if e.s.Journal.Head().IsZero() {
				return n, nil // a new epoch is being described
			}
			err = e.lost(err)
		case err == nil && len(changes) > 0:
			n += len(changes)
			err = e.take(changes)
		case err == nil && e.state.Walk != nil:
			// Only now: a page must not be taken for one that the engine may
			// know if a change says that it was created since.
			var m int
			m, err = e.walk(ctx)
			n += m
		default:
			return n, err
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// start begins to follow the journal at its head, if it has one yet: or where
// it began, if that was while we waited for it.
func (e *engine) start() (bool, error) {
	from, now := e.s.Journal.Head(), e.s.now()
	if from.IsZero() {
		e.early = true
		return false, nil
	}
	if e.early {
		from = e.s.Journal.Floor()
	}
	return true, e.commit(nil, func(st *engineState) {
		st.Started, st.Cursor = now, from
		if e.s.SendAll {
			st.Walk = &walk{}
		}
	})
}

// lost goes on where the changes after the cursor cannot be read any more:
// from the oldest that can be, and then with a walk over everything. No page
// can be left out of it: its Modified proves nothing, since copies, deployments
// and restored files bring times from before what was told last, and an entry
// does not say which change made it what it is.
func (e *engine) lost(cause error) error {
	floor := e.s.Journal.Floor()
	e.s.log().Warn("indexnow: changes were missed: every page is taken for changed, once",
		"engine", e.name, "pages", e.s.Journal.Len(), "err", cause)
	return e.commit(nil, func(st *engineState) {
		st.Cursor, st.Walk = floor, &walk{}
	})
}

// take takes in changes and moves the cursor behind them.
func (e *engine) take(changes []protocol.Change) error {
	k, err := e.s.theKey()
	if err != nil {
		return err
	}
	in := e.intake(k)
	for _, c := range changes {
		if !e.s.significant(c) {
			continue
		}
		if c.Op == protocol.Move {
			in.owe(c.From, false)
		}
		if c.Op == protocol.Delete || listed(c.Item) {
			in.owe(c.Item.URL, c.Op == protocol.Create || c.Op == protocol.Move)
		}
	}
	last := changes[len(changes)-1]
	return e.commit(in.urls, func(st *engineState) {
		st.Cursor.Seq = last.Seq
	})
}

// An intake gathers what becomes owed in one transaction.
type intake struct {
	e    *engine
	key  key
	now  time.Time
	urls map[string]owed
}

func (e *engine) intake(k key) *intake {
	return &intake{e: e, key: k, now: e.s.now(), urls: make(map[string]owed)}
}

// owe notes that a URL is to be sent; created says that it was not there before.
func (in *intake) owe(url string, created bool) {
	if !in.e.s.ours(url, in.key) {
		return
	}
	o, ok := in.urls[url]
	if !ok {
		o = in.e.urls[url]
	}
	if o.due.IsZero() {
		o.due, o.since, o.refused, o.fresh = in.now, in.now, 0, created
		if next := o.sent.Add(in.e.s.debounce()); !o.sent.IsZero() && !over(next, in.now, in.e.s.debounce()) {
			o.due = next
		}
	}
	in.urls[url] = o
}

// walkAtOnce bounds the URLs of one transaction, and the pages that a walk
// takes in while it keeps the journal open for reading.
const walkAtOnce = 4 * protocol.MaxBatch

// walk is one bounded part of a walk: it takes in what is present, and goes on
// behind that the next time.
func (e *engine) walk(ctx context.Context) (int, error) {
	k, err := e.s.theKey()
	if err != nil {
		return 0, err
	}
	in, w := e.intake(k), *e.state.Walk
	n, done, err := e.walkOver(ctx, in, &w)
	if err != nil {
		return 0, err
	}
	return n, e.commit(in.urls, func(st *engineState) {
		if st.Walk = &w; done {
			st.Walk = nil
		}
	})
}

func (e *engine) walkOver(ctx context.Context, in *intake, w *walk) (n int, done bool, err error) {
	most := min(walkAtOnce, e.s.room-len(e.urls))
	v, err := e.s.Journal.View()
	if err != nil {
		return 0, false, err
	}
	defer v.Close()
	if v.Head() != e.state.Cursor {
		return 0, false, nil // something is new, and is read first
	}
	for r := v.Reader("", true, w.After); len(in.urls) < most; n++ {
		entry, more, err := r.Next()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !more {
			return n, err == nil, err
		}
		w.After = entry.Item.URL
		if listed(entry.Item) {
			in.owe(entry.Item.URL, false)
		}
	}
	return n, false, nil
}

// forget drops what was sent so long ago that it may be sent again.
func (e *engine) forget() error {
	now, gone := e.s.now(), make(map[string]owed)
	for url, o := range e.urls {
		if o.due.IsZero() && over(o.sent.Add(e.s.debounce()), now, e.s.debounce()) {
			if gone[url] = (owed{}); len(gone) == walkAtOnce {
				break
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return e.commit(gone, func(*engineState) {})
}

// nextAt is when there is something to do if the journal has nothing new; the
// zero time if never.
func (e *engine) nextAt(now time.Time) time.Time {
	var at time.Time
	sooner := func(t time.Time, most time.Duration) {
		if over(t, now, most) {
			t = now
		}
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	held := !over(e.state.RetryAt, now, longestHint)
	if !held && len(e.urls) > 0 && !e.s.ready() {
		return now.Add(readyAgain)
	}
	for _, o := range e.urls {
		switch {
		case o.due.IsZero():
			sooner(o.sent.Add(e.s.debounce()), e.s.debounce())
		case !held:
			sooner(o.due, e.longest())
		}
	}
	if held && len(e.urls) > 0 {
		sooner(e.state.RetryAt, longestHint)
	}
	return at
}

// longest is how far ahead the time can lie at which a URL may be sent.
func (e *engine) longest() time.Duration { return e.s.debounce() << maxRefused }

// due returns the URLs that may be sent now, those that wait longest first.
func (e *engine) due(now time.Time) []string {
	var urls []string
	for url, o := range e.urls {
		if !o.due.IsZero() && over(o.due, now, e.longest()) {
			urls = append(urls, url)
		}
	}
	slices.SortFunc(urls, func(a, b string) int {
		if c := e.urls[a].due.Compare(e.urls[b].due); c != 0 {
			return c
		}
		return protocol.Compare(a, b)
	})
	return urls
}
