package robots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/internal/clock"
)

// A Keeper keeps the [Rules] of a site: it reads robots.txt and stores the rules, so that neither a restart
// nor a process that runs once forgets what was forbidden.
//
// Fields must not be changed once a method has been called. Methods are safe for concurrent use.
type Keeper struct {
	Name string // in messages: a file or a URL

	// Fetch returns the current robots.txt, nil if there is none. It returns an error if that cannot be
	// known: then the accepted rules go on to count.
	Fetch func(context.Context) ([]byte, error)

	Wait   time.Duration // before looser rules count; zero means 60 s
	Remind time.Duration // before a person is told again that it is lost, or cannot be read; zero means 24 h

	// Hurry, above zero, bounds how long Known waits before it tries again. For tests.
	Hurry time.Duration

	Notes Notes // where the rules are stored; nil means nowhere
	Log   *slog.Logger
	Now   func() time.Time

	turn   sync.Mutex // held while robots.txt is read
	known  known
	hasten atomic.Bool // see Hasten
	said   atomic.Bool // a person has been told of a problem
}

// known are the rules that a Keeper knows. Its methods are safe for concurrent use.
type known struct {
	tried atomic.Pointer[time.Time] // when Known failed; nil: never

	mu     sync.Mutex // guards the fields below
	rules  *Rules
	stored *Rules // the rules that Notes have
	loaded bool   // Notes have been read
}

// Notes are the notes of a journal: small values that are stored with it.
type Notes interface {
	Note(key string) ([]byte, error)
	SetNotes(notes map[string][]byte) error
}

// How rules are split into notes, which are small: their keys begin with NoteKey.
const (
	NoteKey  = "robots/" // and a number from 0
	noteSize = 48 << 10
	maxNotes = 64
)

// knownAgain is how long Known waits after a failed read.
const knownAgain = 10 * time.Second

// cure is the advice for a person whose robots.txt is lost, or who wants none.
const cure = "restore robots.txt; to forbid nothing, write the two lines \"User-agent: *\" and \"Disallow:\", which take effect %s later"

// Refresh reads robots.txt and stores the resulting rules. An error says that nothing is known, or that the
// rules could not be stored; then no rule counts that forbids less than before. The caller has no View of the
// journal open.
func (k *Keeper) Refresh(ctx context.Context) (*Rules, error) {
	return k.refresh(ctx, k.Notes != nil)
}

// Load returns the known rules without reading robots.txt, nil if there are none.
func (k *Keeper) Load() (*Rules, error) {
	n := &k.known
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.loaded || k.Notes == nil {
		return n.rules, nil
	}
	rules, err := loadRules(k.Notes)
	if err != nil {
		return nil, err
	}
	n.rules, n.stored, n.loaded = rules, rules, true
	return rules, nil
}

func (k *Keeper) refresh(ctx context.Context, store bool) (*Rules, error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	was, err := k.Load()
	if err != nil {
		return nil, err
	}
	text, err := k.Fetch(ctx)
	switch {
	case err != nil && was == nil:
		return nil, fmt.Errorf("robots.txt: %w: nothing is published until robots.txt can be read", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	now := k.now()
	if err != nil {
		next := k.tell(was, now, "robots.txt cannot be read: the rules read last stay in force", "err", err)
		if store && next != was && storeRules(k.Notes, next) == nil { // else the message is repeated
			k.known.set(next, next)
		}
		return was, nil
	}
	wait := k.wait()
	if k.hasten.Swap(false) {
		wait = 0
	}
	_, stored := k.known.get()
	next := k.say(was, was.read(text, now, wait), now)
	if store && next != stored {
		if err := storeRules(k.Notes, next); err != nil {
			// Stricter rules count all the same.
			k.known.set(was.read(text, now, math.MaxInt64), stored)
			return nil, fmt.Errorf("robots.txt: store rules: %w", err)
		}
		stored = next
	}
	k.known.set(next, stored)
	return next, nil
}

func (n *known) set(rules, stored *Rules) {
	n.mu.Lock()
	n.rules, n.stored = rules, stored
	n.mu.Unlock()
}

func (n *known) get() (rules, stored *Rules) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules, n.stored
}

// tell logs a problem for a person, unless it did so recently, and returns the rules that remember the time.
func (k *Keeper) tell(r *Rules, now time.Time, what string, args ...any) *Rules {
	if d := now.Sub(r.said); !r.said.IsZero() && d >= 0 && d < cmp.Or(max(k.Remind, 0), 24*time.Hour) {
		return r
	}
	k.log().Error(what, append([]any{"robots", k.Name}, args...)...)
	k.said.Store(true)
	return r.saidAt(now)
}

// say logs what a person should know of a reading.
func (k *Keeper) say(was, next *Rules, now time.Time) *Rules {
	if next.Lost() {
		how := "has no rules"
		if next.missing() {
			how = "is missing"
		}
		return k.tell(next, now, "robots.txt "+how+": what was forbidden before stays forbidden", "cure", fmt.Sprintf(cure, seconds(k.wait())))
	}
	if since, ok := next.waits(); ok && next != was && since.Equal(now) {
		k.log().Info("robots.txt has changed: new prohibitions apply now, new permissions after a delay", "robots", k.Name, "after", seconds(k.wait()))
	} else if was != nil && !ok && next != was {
		k.log().Info("robots.txt accepted", "robots", k.Name)
	}
	return next
}

// Known returns the rules, nil if they cannot be known. It reads robots.txt if nobody has, and stores
// nothing.
func (k *Keeper) Known() *Rules {
	rules := k.Current()
	again := knownAgain
	if k.Hurry > 0 {
		again = min(again, k.Hurry)
	}
	if tried := k.known.tried.Load(); rules != nil || tried != nil && k.now().Sub(*tried) < again {
		return rules
	}
	rules, err := k.refresh(context.Background(), false)
	if err != nil {
		k.log().Warn("nothing is public", "err", err)
		now := k.now()
		k.known.tried.Store(&now)
		return nil
	}
	return rules
}

// Current returns the rules as far as they are known.
func (k *Keeper) Current() *Rules {
	rules, _ := k.known.get()
	return rules
}

// Due returns when the waiting candidate may be accepted; false if there is none.
func (k *Keeper) Due() (time.Time, bool) {
	since, ok := k.Current().waits()
	return since.Add(k.wait()), ok
}

// IsNews reports whether robots.txt can be read and differs from the text read last. It stores nothing.
func (k *Keeper) IsNews(ctx context.Context) bool {
	text, err := k.Fetch(ctx)
	return err == nil && !k.Current().isLast(text)
}

// Hasten makes the next Refresh accept what it reads at once, unless that is lost.
func (k *Keeper) Hasten() { k.hasten.Store(true) }

// Said reports whether this process has told a person of a problem.
func (k *Keeper) Said() bool { return k.said.Load() }

// Trouble describes a problem of robots.txt as read last; empty if all is well.
func (k *Keeper) Trouble() string {
	r := k.Current()
	switch {
	case r.Lost() && r.missing():
		return "missing: what was forbidden before stays forbidden"
	case r.Lost():
		return "has no rules: what was forbidden before stays forbidden"
	}
	if since, ok := r.waits(); ok {
		return "changed at " + since.UTC().Format(time.RFC3339) + ": new prohibitions apply already, new permissions " + seconds(k.wait()) + " later"
	}
	return ""
}

func (k *Keeper) wait() time.Duration { return cmp.Or(max(k.Wait, 0), time.Minute) }

func (k *Keeper) now() time.Time { return clock.Now(k.Now) }

func (k *Keeper) log() *slog.Logger { return cmp.Or(k.Log, slog.New(slog.DiscardHandler)) }

// seconds writes a wait for a person.
func seconds(d time.Duration) string {
	if d%time.Second != 0 || d < time.Second {
		return d.String()
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// loadRules reads stored rules, nil if there are none.
func loadRules(notes Notes) (*Rules, error) {
	var b []byte
	for i := range maxNotes {
		part, err := notes.Note(NoteKey + strconv.Itoa(i))
		if err != nil {
			return nil, fmt.Errorf("robots.txt: load stored rules: %w", err)
		}
		if part == nil {
			break
		}
		b = append(b, part...)
	}
	if b == nil {
		return nil, nil
	}
	r, err := parseRules(b)
	if err != nil {
		return nil, fmt.Errorf("robots.txt: load stored rules: %w", err)
	}
	return r, nil
}

// storeRules stores rules, in one step.
func storeRules(notes Notes, r *Rules) error {
	parts := make(map[string][]byte)
	b := r.encode()
	for i := range maxNotes {
		var part []byte // nil deletes the rest of an earlier, longer text
		if len(b) > 0 {
			n := min(len(b), noteSize)
			part, b = b[:n], b[n:]
		}
		parts[NoteKey+strconv.Itoa(i)] = part
	}
	if len(b) > 0 {
		return errors.New("rules too long")
	}
	return notes.SetNotes(parts)
}
