package docroot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/inventory"
)

// Restarts of a watcher are delayed, by more each time if they come in quick succession.
const (
	watchAgainLeast = 50 * time.Millisecond
	watchAgainMost  = 5 * time.Second
	watchPoll       = time.Second      // how often the root is checked: mounts cause no event
	watchLinked     = time.Second      // delay after a change of a hard-linked file until everything is dirty
	watchLinkedMost = 5 * time.Second  // the least time between two of these
	watchBatch      = time.Millisecond // paths that settle this close together are reported together
)

// errAgain ends a watcher that may have lost track of the tree.
var errAgain = errors.New("watch anew")

// Watch reports changes below the docroot until ctx ends, after their debounce. Everything is dirty at the
// beginning, and whenever events may be missing.
func (s *Site) Watch(ctx context.Context, dirty func([]inventory.Scope)) error {
	if err := s.Check(); err != nil {
		return err
	}
	defer s.settling.clear()
	var telling sync.Mutex
	tell := func(scopes []inventory.Scope) {
		telling.Lock()
		defer telling.Unlock()
		dirty(scopes)
	}
	for wait := watchAgainLeast; ; {
		began := time.Now()
		err := newWatcher(s, tell).run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != errAgain {
			return fmt.Errorf("watch %s: %w", s.Settings.Docroot, err)
		}
		if time.Since(began) > watchAgainMost {
			wait = watchAgainLeast
		}
		if !pause.For(ctx, wait) {
			return nil
		}
		wait = pause.AtMost(min(2*wait, watchAgainMost), s.Settings.Hurry)
	}
}

// A watcher watches one tree, until the docroot is another directory.
//
// Goroutines share it. Two drain events into memory at once: if they waited for the disk, the
// system's queues would overflow, and report so much too late. One tracks the directories as they come and go.
// One reports settled paths.
type watcher struct {
	site  *Site
	tell  func([]inventory.Scope) // may be called by all of them
	known knownPaths              // used by all of them
	files closings                // used by all of them

	// Only the goroutine of run uses these.
	fs   *fsnotify.Watcher
	root rootID
	full bool // the system allows no more watches

	moved chan struct{} // wakes run: a directory or the root has changed
	noted chan struct{} // wakes settle: a path is settling
	ready chan struct{} // wakes settle: a path is due
	lost  chan struct{} // makes run return errAgain
}

// A rootID identifies the directory that a docroot is at some moment.
type rootID struct {
	path string // empty if there is none
	id   dirID
}

func newWatcher(s *Site, tell func([]inventory.Scope)) *watcher {
	return &watcher{
		site: s, tell: tell,
		moved: make(chan struct{}, 1), noted: make(chan struct{}, 1), ready: make(chan struct{}, 1), lost: make(chan struct{}, 1),
		known: knownPaths{changed: map[string]change{}, dirs: map[string]*watched{}, byID: map[dirID]string{},
			aliases: map[string][]*walkDir{}, links: map[string]bool{}, guards: map[string]bool{}, robots: map[string]bool{},
			fresh: map[string]bool{}, gone: map[string][]inventory.Scope{}},
	}
}

// hurried returns a wait, shorter in tests.
func (w *watcher) hurried(d time.Duration) time.Duration {
	return pause.AtMost(d, w.site.Settings.Hurry)
}

// run watches until ctx ends; it returns errAgain if a new watcher is needed.
func (w *watcher) run(ctx context.Context) (err error) {
	if w.fs, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer w.fs.Close()
	w.files.open()
	defer w.files.close()
	defer stop()
	owned.Go(func() { w.drain(w.fs.Events, w.fs.Errors) })
	owned.Go(func() {
		if err := w.files.read(w.settling); err != nil {
			w.fail(err)
		}
	})
	owned.Go(func() { w.settle(ctx) })
	owned.Go(func() { w.watchRules(ctx) })

	if err := w.begin(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	w.tell(nil)
	poll := time.NewTicker(w.hurried(watchPoll))
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.lost:
			return errAgain
		case <-w.moved:
			err = w.restructure(ctx)
		case <-poll.C:
			err = w.checkRoot()
		}
		if err != nil {
			return err
		}
	}
}

// watchRules makes everything dirty when a robots.txt without file events has changed, and when a candidate
// robots.txt is due to be accepted, until ctx ends.
func (w *watcher) watchRules(ctx context.Context) {
	keeper := &w.site.robots
	every := w.hurried(robotsEvery)
	poll := time.NewTicker(min(w.hurried(watchPoll), every))
	defer poll.Stop()
	var tried, triedFor time.Time // when the scan for the candidate due at triedFor was requested
	for asked := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
		now := time.Now()
		if due, ok := keeper.Due(); ok && !now.Before(due) && (!due.Equal(triedFor) || now.Sub(tried) > every) {
			tried, triedFor = now, due
			w.tell(nil)
		}
		if public.IsURL(keeper.Name) && now.Sub(asked) >= every {
			if asked = now; keeper.IsNews(ctx) {
				w.tell(nil)
			}
		}
	}
}

// drain records events until both channels are closed.
func (w *watcher) drain(events <-chan fsnotify.Event, errs <-chan error) {
	for events != nil || errs != nil {
		select {
		case ev, ok := <-events:
			if !ok {
				events = nil
			} else if ev.Name != "" {
				w.note(ev)
			}
		case err, ok := <-errs:
			if !ok {
				errs = nil
			} else if err != nil {
				w.fail(err)
			}
		}
	}
}

// fail handles events that may have been lost: everything is dirty now, and again once everything is watched
// again.
func (w *watcher) fail(err error) {
	w.site.log().Warn("events of the docroot were lost: scanning everything", "err", err)
	w.tell(nil)
	pause.Wake(w.lost)
}

var errTooMuch = errors.New("too many paths change at once")

// note records an event of fsnotify. It does nothing that could take long.
func (w *watcher) note(ev fsnotify.Event) {
	inside, structure := w.known.note(ev)
	if inside && !w.files.has(filepath.Dir(ev.Name)) {
		e := touched
		if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
			e = left
		}
		w.settling(ev.Name, e)
	}
	if structure {
		pause.Wake(w.moved)
	}
}

// settling records that a path is being changed.
func (w *watcher) settling(path string, e event) {
	tracked, atOnce := w.site.settling.note(path, time.Now(), e)
	if !tracked {
		w.site.settling.clear()
		w.fail(errTooMuch)
	}
	if atOnce {
		pause.Wake(w.ready)
	}
	pause.Wake(w.noted)
}

// settle reports settled paths, until ctx ends.
func (w *watcher) settle(ctx context.Context) {
	var all, lastAll time.Time // when everything becomes dirty because of hard-linked files
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		due, left, next := w.site.settling.due(now)
		if len(due) > 0 {
			if w.settled(due, left, now) && all.IsZero() {
				all = clock.Later(now.Add(w.hurried(watchLinked)), lastAll.Add(w.hurried(watchLinkedMost)))
			}
			continue
		}
		if !all.IsZero() && !all.After(now) {
			all, lastAll = time.Time{}, now
			w.tell(nil)
		}
		// A new event that is not ready needs settleQuiet at least, so that a wait of at most that makes none late.
		wait := time.Duration(-1)
		if !next.IsZero() {
			wait = min(max(next.Sub(now), watchBatch), settleQuiet)
		} else if !all.IsZero() {
			wait = all.Sub(now)
		}
		idle := w.noted
		if wait >= 0 {
			timer.Reset(wait)
			if !next.IsZero() {
				idle = nil
			}
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-idle:
		case <-w.ready:
		case <-timer.C:
		}
	}
}
