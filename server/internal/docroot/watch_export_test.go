package docroot

import (
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/parleyweb/parley/server/inventory"
)

// OverflowedWatch returns how a watcher reacts when its events were lost: which scopes it reported, and
// whether it wants to be restarted.
func OverflowedWatch(s *Site) (told [][]inventory.Scope, again bool) {
	if err := s.Check(); err != nil {
		panic(err)
	}
	w := newWatcher(s, func(scopes []inventory.Scope) { told = append(told, scopes) })
	events, errs := make(chan fsnotify.Event), make(chan error, 1)
	errs <- fsnotify.ErrEventOverflow
	close(errs)
	close(events)
	w.drain(events, errs)
	select {
	case <-w.lost:
		return told, true
	default:
		return told, false
	}
}

// SettleTimes returns when a path with the given events is due, in milliseconds since the first event. With
// empty, the file is empty at every check.
func SettleTimes(events []time.Duration, empty bool) (due []time.Duration) {
	var q settling
	epoch := time.Now()
	for at := time.Duration(0); at < time.Minute; at += time.Millisecond {
		now := epoch.Add(at)
		if len(events) > 0 && events[0] <= at {
			q.note("path", now, false)
			events = events[1:]
		}
		list, _, _ := q.due(now)
		for _, c := range list {
			if !(empty && q.wait(c, now)) && q.done(c, now) {
				due = append(due, at)
			}
		}
	}
	return due
}

// SettleMany returns how many of n paths that change at once are tracked.
func SettleMany(n int) (followed int) {
	var q settling
	for i := range n {
		if q.note(fmt.Sprint(i), time.Now(), false) {
			followed++
		}
	}
	return followed
}
