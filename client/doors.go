package client

import "time"

// A doorState is the state of the stream door or the changes door.
type doorState struct {
	url   string // empty if the site has none
	shut  bool   // the caller has disabled it
	until time.Time
	fails int  // in a row
	down  bool // not used before until; its failures are no longer reported
}

func (d *doorState) exists() bool { return d.url != "" && !d.shut }

// open reports whether the door may be tried now; works reports whether it is not known to fail: a failing
// door must not keep Follow from one that works.
func (d *doorState) open(now time.Time) bool { return d.exists() && !now.Before(d.until) }

func (d *doorState) works() bool { return d.exists() && !d.down }

func (f *follower) state(door Door) *doorState {
	switch door {
	case Stream:
		return &f.stream
	case Changes:
		return &f.changes
	}
	return nil
}

// best returns the best door that is not known to fail.
func (f *follower) best() Door {
	switch {
	case f.stream.works():
		return Stream
	case f.changes.works():
		return Changes
	}
	return Manifest
}

// setDoors records the doors that the site states.
func (f *follower) setDoors(stream, changes string) {
	f.found = true
	for _, d := range []struct {
		state *doorState
		ref   string
	}{{&f.stream, stream}, {&f.changes, changes}} {
		u, err := f.door(d.ref)
		if err != nil {
			f.src.Log.Warn("door is not used", "reason", err)
		}
		if u != d.state.url {
			*d.state = doorState{url: u, shut: d.state.shut}
		}
	}
}

// went records that a door delivered something. That resets the failure count, but only so often (pardons): a
// door that delivers a little and fails, again and again, is soon tried no more often than one that delivers
// nothing.
func (f *follower) went(door Door) {
	if now := time.Now(); f.tries > 0 {
		if f.pardoned.Before(now) {
			f.pardoned = now
		}
		if next := f.pardoned.Add(pardonEvery); next.Sub(now) <= pardons*pardonEvery {
			f.tries, f.pardoned = 0, next
		}
	}
	if d := f.state(door); d != nil {
		d.fails, d.down, d.until = 0, false, time.Time{}
	}
	f.standsOn(door)
}

// standsOn logs which door is in use, if that has changed or an error was reported since.
func (f *follower) standsOn(door Door) {
	if f.stands != door || f.lost {
		f.stands = door
		f.src.Log.Info("connected", "door", string(door), "cursor", f.cursor.String())
	}
}
