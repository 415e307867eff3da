package ping

import (
	"cmp"
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
	o        *IndexNowOptions
	key      *keyring
	name     string
	endpoint string
	prefix   string // of its notes, ending in "/"

	turn sync.Mutex // one Run or Turn at a time

	// unsettled, if not nil, repeats a commit that failed: nothing else is done
	// before it has succeeded. Guarded by turn.
	unsettled func() error

	// early says that this sender started before the journal had a head, so
	// that every change in it is new. Guarded by turn.
	early bool

	mu     sync.Mutex // guards the fields below, for Status; they change only with turn held
	loaded bool
	state  engineState
	urls   map[string]pendingURL // by URL, as in the notes
}

// engineState is the note "state" of an engine.
type engineState struct {
	Started time.Time       `json:"started"`
	Cursor  protocol.Cursor `json:"cursor"`         // all changes up to it have been processed...
	Walk    *walk           `json:"walk,omitempty"` // ...except for pages that this walk has not reached

	Limit    int       `json:"limit,omitempty"`    // URLs in the next batch, 0 for the maximum
	Alone    int       `json:"alone,omitempty"`    // single URLs refused since the last accepted batch
	Failures int       `json:"failures,omitempty"` // in a row
	RetryAt  time.Time `json:"retry_at,omitzero"`  // nothing is sent before
	Trouble  string    `json:"trouble,omitempty"`  // the reason for RetryAt
	Key      KeyState  `json:"key,omitempty"`
	Burned   string    `json:"burned,omitempty"` // the burned key
	Accepted int64     `json:"accepted,omitempty"`
	At       time.Time `json:"accepted_at,omitzero"` // when a batch was accepted last
	Results  []Outcome `json:"results,omitempty"`
}

// A walk queues all present pages, in place of changes that cannot be read.
type walk struct {
	After string `json:"after,omitempty"` // the last page visited
}

// pendingURL is the state of one URL that is pending or was sent lately.
type pendingURL struct {
	due     time.Time // when it may be sent; zero if it need not be
	sent    time.Time // when it was; zero if not within the debounce
	since   time.Time // when it became pending
	fresh   bool      // it was created after the engine was last sent it
	refused int       // how often the engine refused it in a batch of one
}

func (o pendingURL) note() []byte {
	n := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return fmt.Appendf(nil, "%d %d %d %t %d", n(o.due), n(o.sent), n(o.since), o.fresh, o.refused)
}

// parsePendingURL parses the output of note. An unreadable note is due: better to send
// a URL once too often than never.
func parsePendingURL(b []byte, now time.Time) pendingURL {
	f := strings.Fields(string(b))
	if len(f) != 5 {
		return pendingURL{due: now, since: now}
	}
	var bad bool
	at := func(s string) time.Time {
		n, err := strconv.ParseInt(s, 10, 64)
		if bad = bad || err != nil; err != nil || n == 0 {
			return time.Time{}
		}
		return time.UnixMilli(n)
	}
	o := pendingURL{due: at(f[0]), sent: at(f[1]), since: at(f[2])}
	fresh, err1 := strconv.ParseBool(f[3])
	refused, err2 := strconv.Atoi(f[4])
	if bad || err1 != nil || err2 != nil || refused < 0 {
		return pendingURL{due: now, since: now}
	}
	o.fresh, o.refused = fresh, refused
	return o
}

// load reads the notes, once.
func (e *engine) load() error {
	if e.loaded {
		return nil
	}
	now := e.o.now()
	var st engineState
	urls := make(map[string]pendingURL)
	err := e.o.Journal.EachNote(e.prefix, func(k string, v []byte) error {
		k = strings.TrimPrefix(k, e.prefix)
		if url, ok := strings.CutPrefix(k, "url/"); ok {
			if urls[url] = parsePendingURL(v, now); !strings.HasPrefix(url, e.o.Base) {
				urls[url] = pendingURL{} // the site has moved: forgotten by the next takeIn
			}
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

// commit changes the state and the URLs (the zero pendingURL deletes a URL) in one
// durable transaction, and in memory once that has succeeded.
func (e *engine) commit(urls map[string]pendingURL, change func(*engineState)) error {
	st := e.state
	change(&st)
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	notes := map[string][]byte{e.prefix + "state": b}
	for url, o := range urls {
		if (o == pendingURL{}) {
			notes[e.prefix+"url/"+url] = nil
		} else {
			notes[e.prefix+"url/"+url] = o.note()
		}
	}
	e.unsettled = func() error {
		if err := e.o.Journal.SetNotes(notes); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.state = st
		for url, o := range urls {
			if (o == pendingURL{}) {
				delete(e.urls, url)
			} else {
				e.urls[url] = o
			}
		}
		return nil
	}
	return e.settle()
}

// settle repeats a commit that failed, and loads the stored state.
func (e *engine) settle() error {
	if e.unsettled != nil {
		if err := e.unsettled(); err != nil {
			return err
		}
		e.unsettled = nil
	}
	return e.load()
}

func (e *engine) full() bool { return len(e.urls) >= e.o.room }

// takeIn queues the URLs of the changes after the cursor, as far as there is room,
// and forgets URLs that are not needed any more. It returns the number of
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
		changes, err := e.o.Journal.Read(ctx, e.state.Cursor, protocol.MaxBatch)
		switch {
		case errors.Is(err, protocol.ErrEpoch), errors.Is(err, protocol.ErrTooOld):
			if e.o.Journal.Head().IsZero() {
				return n, nil // a new epoch is being described
			}
			err = e.lost(err)
		case err == nil && len(changes) > 0:
			n += len(changes)
			err = e.take(changes)
		case err == nil && e.state.Walk != nil:
			// Only after the changes: a page must not be marked as possibly known to
			// the engine if a change says that it was created since.
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

// start begins to follow the journal at its head, if it has one; or at its
// beginning, if the journal began while the engine waited.
func (e *engine) start() (bool, error) {
	from, now := e.o.Journal.Head(), e.o.now()
	if from.IsZero() {
		e.early = true
		return false, nil
	}
	if e.early {
		from = e.o.Journal.Floor()
	}
	return true, e.commit(nil, func(st *engineState) {
		st.Started, st.Cursor = now, from
		if e.o.SendAll {
			st.Walk = &walk{}
		}
	})
}

// lost handles a cursor after which changes cannot be read any more: it continues
// from the oldest change, and then with a walk over all pages. The walk can skip
// no page: Modified proves nothing, since copies, deployments and restored files
// bring times from before the last sending, and an entry does not name the
// change that made it.
func (e *engine) lost(cause error) error {
	floor := e.o.Journal.Floor()
	e.o.log().Warn("indexnow: changes were missed: every page is treated as changed, once",
		"engine", e.name, "pages", e.o.Journal.Len(), "err", cause)
	return e.commit(nil, func(st *engineState) {
		st.Cursor, st.Walk = floor, &walk{}
	})
}

// take queues the URLs of changes and moves the cursor past them.
func (e *engine) take(changes []protocol.Change) error {
	k, err := e.key.current()
	if err != nil {
		return err
	}
	in := e.intake(k)
	for _, c := range changes {
		if !e.significant(c) {
			continue
		}
		if c.Op == protocol.Move {
			in.addPending(c.From, false)
		}
		if c.Op == protocol.Delete || listed(c.Item) {
			in.addPending(c.Item.URL, c.Op == protocol.Create || c.Op == protocol.Move)
		}
	}
	last := changes[len(changes)-1]
	return e.commit(in.urls, func(st *engineState) {
		st.Cursor.Seq = last.Seq
	})
}

// An intake gathers the URLs that one transaction makes pending.
type intake struct {
	e    *engine
	key  key
	now  time.Time
	urls map[string]pendingURL
}

func (e *engine) intake(k key) *intake {
	return &intake{e: e, key: k, now: e.o.now(), urls: make(map[string]pendingURL)}
}

// addPending makes a URL pending; created says that it is new.
func (in *intake) addPending(url string, created bool) {
	if !in.e.key.mayBeSent(url, in.key) {
		return
	}
	o, ok := in.urls[url]
	if !ok {
		o = in.e.urls[url]
	}
	if o.due.IsZero() {
		o.due, o.since, o.refused, o.fresh = in.now, in.now, 0, created
		if next := o.sent.Add(in.e.o.debounce()); !o.sent.IsZero() && !over(next, in.now, in.e.o.debounce()) {
			o.due = next
		}
	}
	in.urls[url] = o
}

// walkAtOnce bounds the URLs of one transaction, and the pages that a walk
// queues during one read transaction of the journal.
const walkAtOnce = 4 * protocol.MaxBatch

// walk does one bounded part of a walk: it queues present pages, and the next
// call continues after them.
func (e *engine) walk(ctx context.Context) (int, error) {
	k, err := e.key.current()
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
	most := min(walkAtOnce, e.o.room-len(e.urls))
	v, err := e.o.Journal.View()
	if err != nil {
		return 0, false, err
	}
	defer v.Close()
	if v.Head() != e.state.Cursor {
		return 0, false, nil // new changes are read first
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
			in.addPending(entry.Item.URL, false)
		}
	}
	return n, false, nil
}

// forget drops URLs that were sent so long ago that they may be sent again.
func (e *engine) forget() error {
	now, gone := e.o.now(), make(map[string]pendingURL)
	for url, o := range e.urls {
		if o.due.IsZero() && over(o.sent.Add(e.o.debounce()), now, e.o.debounce()) {
			if gone[url] = (pendingURL{}); len(gone) == walkAtOnce {
				break
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return e.commit(gone, func(*engineState) {})
}

// nextAt returns when there is work to do if the journal has nothing new; the
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
	if !held && len(e.urls) > 0 && !e.ready() {
		return now.Add(readyAgain)
	}
	for _, o := range e.urls {
		switch {
		case o.due.IsZero():
			sooner(o.sent.Add(e.o.debounce()), e.o.debounce())
		case !held:
			sooner(o.due, e.longest())
		}
	}
	if held && len(e.urls) > 0 {
		sooner(e.state.RetryAt, longestHint)
	}
	return at
}

// longest bounds how far in the future the due time of a URL can lie.
func (e *engine) longest() time.Duration { return e.o.debounce() << maxRefused }

// due returns the URLs that may be sent now, by their due times, the earliest first.
func (e *engine) due(now time.Time) []string {
	var urls []string
	for url, o := range e.urls {
		if !o.due.IsZero() && over(o.due, now, e.longest()) {
			urls = append(urls, url)
		}
	}
	slices.SortFunc(urls, func(a, b string) int {
		return cmp.Or(e.urls[a].due.Compare(e.urls[b].due), protocol.Compare(a, b))
	})
	return urls
}

// runAll runs all of list until ctx ends.
func runAll[R interface{ run(context.Context) error }](ctx context.Context, list []R) error {
	errs := make([]error, len(list))
	var owned sync.WaitGroup
	for i, r := range list {
		owned.Go(func() { errs[i] = r.run(ctx) })
	}
	owned.Wait()
	return errors.Join(errs...)
}

// turnAll lets all receivers have a turn at the same time. It returns the sum of what they accepted, and a line for people about each
// one that fails.
func turnAll[R interface {
	once(context.Context) (accepted int, trouble string, err error)
}](ctx context.Context, list []R) (accepted int, failed []string, err error) {
	var owned sync.WaitGroup
	var mu sync.Mutex
	for _, r := range list {
		owned.Go(func() {
			n, trouble, e := r.once(ctx)
			mu.Lock()
			defer mu.Unlock()
			accepted += n
			if trouble != "" {
				failed = append(failed, trouble)
			}
			err = errors.Join(err, e)
		})
	}
	owned.Wait()
	return accepted, failed, err
}
