package docroot

import (
	"fmt"
	"path/filepath"
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

// eventNames names what can happen to a path.
var eventNames = map[string]event{"touched": touched, "left": left, "other directory": otherDir, "created": created, "written": written, "complete": complete}

// An Event happens to a path at a time.
type Event struct {
	At         time.Duration
	Path, What string
}

// SettleTimes returns when paths with the given events, in the order of their times, are due, in milliseconds since the first event. With
// empty, the files are empty at every check. The path of robots.txt is "/robots.txt".
func SettleTimes(events []Event, empty bool) map[string][]time.Duration {
	q := settling{robots: "/robots.txt"}
	due := make(map[string][]time.Duration)
	epoch := time.Now()
	for at := time.Duration(0); at < time.Minute; at += time.Millisecond {
		now := epoch.Add(at)
		for len(events) > 0 && events[0].At <= at {
			q.note(events[0].Path, now, eventNames[events[0].What])
			events = events[1:]
		}
		list, _, _ := q.due(now)
		for _, c := range list {
			if !(empty && q.wait(c, now)) && q.done(c, now) {
				due[c.path] = append(due[c.path], at)
			}
		}
	}
	return due
}

// FileEvents returns the events of a directory's files while do runs, which ends with the creation of a file "end".
func FileEvents(dir string, do func()) (list []string, err error) {
	var c closings
	c.open()
	defer c.close()
	c.add(dir)
	do()
	err = c.read(func(path string, e event) {
		if filepath.Base(path) == "end" {
			c.close()
			return
		}
		for name, v := range eventNames {
			if v == e {
				list = append(list, filepath.Base(path)+" "+name)
			}
		}
	})
	return list, err
}

// SettleMany returns how many of n paths that change at once are tracked.
func SettleMany(n int) (followed int) {
	var q settling
	for i := range n {
		if tracked, _ := q.note(fmt.Sprint(i), time.Now(), touched); tracked {
			followed++
		}
	}
	return followed
}
