package docroot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/inventory"
)

// How a Watch begins anew: after a while that grows if it comes to that again and again.
const (
	watchAgainLeast = 50 * time.Millisecond
	watchAgainMost  = 5 * time.Second
	watchPoll       = time.Second      // how often the root is looked at: mounts give no event
	watchLinked     = time.Second      // how long a file of several names waits for everything to be dirty
	watchLinkedMost = 5 * time.Second  // and how often that happens at most
	watchBatch      = time.Millisecond // paths that settle so close together are told together
)

// errAgain ends a watcher whose picture of the tree cannot be trusted any more.
var errAgain = errors.New("watch anew")

// Watch tells of changes below the docroot until ctx ends, once they have
// settled. Everything is dirty at the beginning, and whenever events may be missing.
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

// A watcher watches one tree, until it is another.
//
// Three goroutines share it. One drains the events into memory at once: were
// it to wait for the disk, the system's queue would overflow, and tell so much
// too late. One follows the directories as they come and go. One tells of what
// has settled.
type watcher struct {
	site *Site
	tell func([]inventory.Scope) // may be called by all three
	fs   *fsnotify.Watcher
	root rootID

	moved chan struct{} // something happened to directories, or to the root
	noted chan struct{} // something settles
	lost  chan struct{} // errAgain

	mu      sync.Mutex                   // guards what follows
	changed map[string]bool              // paths; whether something else may stand there now
	left    map[string]bool              // those of them at which something stood that has gone, or moved away
	dirs    map[string]*watched          // by absolute path without symbolic links
	byID    map[dirID]string             // the same
	aliases map[string][]*walkDir        // of a file: where symbolic links to it stand
	links   map[string]bool              // symbolic links that directories were reached by, or other links
	guards  map[string]bool              // paths that decide which directory the root is
	fresh   map[string]bool              // directories that are new
	gone    map[string][]inventory.Scope // by path of what stood there
	robots  string                       // its path, if it is a file
	full    bool                         // the system allows no more watches
}

// watched is a directory that is watched.
type watched struct {
	id dirID
	at []*walkDir // where it is in the site: more than one place if symbolic links lead to it
}

// A dirID identifies a directory whatever its path. It is zero where the system has no such thing.
type dirID struct{ dev, ino uint64 }

// A rootID identifies the directory that a docroot is at some moment.
type rootID struct {
	path string // empty if there is none
	id   dirID
}

func newWatcher(s *Site, tell func([]inventory.Scope)) *watcher {
	return &watcher{
		site: s, tell: tell,
		moved: make(chan struct{}, 1), noted: make(chan struct{}, 1), lost: make(chan struct{}, 1),
		changed: map[string]bool{}, left: map[string]bool{}, dirs: map[string]*watched{}, byID: map[dirID]string{},
		aliases: map[string][]*walkDir{}, links: map[string]bool{}, guards: map[string]bool{},
		fresh: map[string]bool{}, gone: map[string][]inventory.Scope{},
	}
}

// run watches until ctx ends; it returns errAgain if it must be done anew.
func (w *watcher) run(ctx context.Context) (err error) {
	if w.fs, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var owned sync.WaitGroup
	defer owned.Wait()
	defer w.fs.Close()
	defer stop()
	owned.Go(func() { w.drain(w.fs.Events, w.fs.Errors) })
	owned.Go(func() { w.settle(ctx) })
	owned.Go(func() { w.watchRules(ctx) })

	if err := w.begin(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	w.tell(nil)
	poll := time.NewTicker(pause.AtMost(watchPoll, w.site.Settings.Hurry))
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

// watchRules makes everything dirty when robots.txt says something else and no
// event tells of that, and when what it allows newly may count, until ctx ends.
func (w *watcher) watchRules(ctx context.Context) {
	keeper := &w.site.robots
	every := pause.AtMost(robotsEvery, w.site.Settings.Hurry)
	poll := time.NewTicker(min(pause.AtMost(watchPoll, w.site.Settings.Hurry), every))
	defer poll.Stop()
	var tried, triedFor time.Time // when the candidate was to be accepted that was due then
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

// drain takes events in until both channels are closed.
func (w *watcher) drain(events <-chan fsnotify.Event, errs <-chan error) {
	for events != nil || errs != nil {
		select {
		case ev, ok := <-events:
			if !ok {
				events = nil
			} else if ev.Name != "" {
				w.note(ev, time.Now())
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

// fail takes in that events may have been lost: everything is dirty now, and
// again once everything is watched again.
func (w *watcher) fail(err error) {
	w.site.log().Warn("events of the docroot were lost: looking at everything", "err", err)
	w.tell(nil)
	pause.Wake(w.lost)
}

var errTooMuch = errors.New("too many paths change at once")

// note takes in an event. It does nothing that could take long.
func (w *watcher) note(ev fsnotify.Event, now time.Time) {
	w.mu.Lock()
	isDir := w.dirs[ev.Name] != nil
	known := isDir || w.dirs[filepath.Dir(ev.Name)] != nil || ev.Name == w.robots
	if !known && !w.guards[ev.Name] && !w.links[ev.Name] {
		w.mu.Unlock()
		return // beside the root, or no longer in it
	}
	other := ev.Has(fsnotify.Create) || ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename)
	structure := other || ev.Has(fsnotify.Chmod) && !isDir // perhaps a directory that could not be read before
	if structure {
		w.changed[ev.Name] = w.changed[ev.Name] || other
	}
	if ev.Has(fsnotify.Rename) || ev.Has(fsnotify.Remove) {
		w.left[ev.Name] = true
	}
	w.mu.Unlock()
	if known && !w.site.settling.note(ev.Name, now) {
		w.site.settling.clear()
		w.fail(errTooMuch)
	}
	if structure {
		pause.Wake(w.moved)
	}
	pause.Wake(w.noted)
}

// settle tells of what has settled, until ctx ends.
func (w *watcher) settle(ctx context.Context) {
	var all, lastAll time.Time // when everything becomes dirty because of files with several names
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		due, next := w.site.settling.due(now)
		if len(due) > 0 {
			if w.settled(due, now) && all.IsZero() {
				all = now.Add(pause.AtMost(watchLinked, w.site.Settings.Hurry))
				if at := lastAll.Add(pause.AtMost(watchLinkedMost, w.site.Settings.Hurry)); at.After(all) {
					all = at
				}
			}
			continue
		}
		if !all.IsZero() && !all.After(now) {
			all, lastAll = time.Time{}, now
			w.tell(nil)
		}
		// What comes now needs settleQuiet at least, so that nothing comes
		// late if it is not waited for more than that.
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
		case <-timer.C:
		}
	}
}
