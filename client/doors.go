package client

import (
	"log/slog"
	"time"
)

// The doors of a site: the stream and the changes door that it has stated, and how well each of them works. The
// manifest needs no entry, since it is always there.
type doors struct {
	site   *site
	log    *slog.Logger
	table  []*doorState // best first
	found  bool         // the site has stated its doors
	stands Door         // the last door that delivered something

	tries    int       // failures since the last success
	pardoned time.Time // when the token bucket of pardons is full again
	pieces   int       // failures in a row to read a bundle or archive to its end
}

// A doorState is the state of the stream door or the changes door.
type doorState struct {
	door  Door
	url   string // empty if the site has none
	shut  bool   // the caller has disabled it
	until time.Time
	fails int  // in a row
	down  bool // not used before until; its failures are no longer reported
}

func exists(s *doorState) bool { return s.url != "" && !s.shut }

// isOpen reports whether the door may be tried now; works reports whether it is not known to fail: a failing
// door must not keep Follow from one that works.
func isOpen(s *doorState) bool { return exists(s) && !time.Now().Before(s.until) }

func works(s *doorState) bool { return exists(s) && !s.down }

// state returns the state of a door, or nil for the manifest.
func (d *doors) state(door Door) *doorState {
	for _, s := range d.table {
		if s.door == door {
			return s
		}
	}
	return nil
}

// best returns the best door that meets a condition, or the manifest if none does.
func (d *doors) best(meets func(*doorState) bool) Door {
	for _, s := range d.table {
		if meets(s) {
			return s.door
		}
	}
	return Manifest
}

// set records the doors that the site states.
func (d *doors) set(stream, changes string) {
	d.found = true
	for i, ref := range []string{stream, changes} {
		u, err := d.site.door(ref)
		if err != nil {
			d.log.Warn("door is not used", "reason", err)
		}
		if s := d.table[i]; u != s.url {
			*s = doorState{door: s.door, url: u, shut: s.shut}
		}
	}
}

// went records that a door delivered something. That resets the failure count, but only so often (pardons): a
// door that delivers a little and fails, again and again, is soon tried no more often than one that delivers
// nothing.
func (d *doors) went(door Door) {
	if now := time.Now(); d.tries > 0 {
		if d.pardoned.Before(now) {
			d.pardoned = now
		}
		if next := d.pardoned.Add(pardonEvery); next.Sub(now) <= pardons*pardonEvery {
			d.tries, d.pardoned = 0, next
		}
	}
	if s := d.state(door); s != nil {
		s.fails, s.down, s.until = 0, false, time.Time{}
	}
}
