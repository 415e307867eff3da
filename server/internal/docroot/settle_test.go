package docroot_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleyweb/parley/server/internal/docroot"
)

// The debounce time of a path after its last event.
func TestDebounce(t *testing.T) {
	const ms = time.Millisecond
	every := func(gap, until time.Duration) (list []time.Duration) {
		for at := time.Duration(0); at <= until; at += gap {
			list = append(list, at)
		}
		return list
	}
	for _, c := range []struct {
		name   string
		events []time.Duration // since the first
		empty  bool
		want   []time.Duration // when it is due
	}{
		{"one", []time.Duration{0}, false, []time.Duration{15 * ms}},
		{"an editor", []time.Duration{0, 1 * ms, 9 * ms}, false, []time.Duration{24 * ms}},
		{"two saves", []time.Duration{0, 500 * ms}, false, []time.Duration{15 * ms, 515 * ms}},
		{"pieces", every(50*ms, 200*ms), false, []time.Duration{15 * ms, 80 * ms, 300 * ms}},
		{"saves one after another", every(200*ms, 600*ms), false, []time.Duration{15 * ms, 215 * ms, 415 * ms, 615 * ms}},
		{"a slow writer", every(10*ms, 100*ms), false, []time.Duration{200 * ms}},
		{"a slower one", every(10*ms, 5000*ms), false, []time.Duration{7000 * ms}},
		{"without an end", every(10*ms, 11*time.Second), false, []time.Duration{10 * time.Second, 10*time.Second + 2*990*ms + 10*2*ms}},
		{"empty", []time.Duration{0}, true, []time.Duration{1000 * ms}},
		{"emptied at the end", []time.Duration{0, 5 * ms}, true, []time.Duration{1005 * ms}},
	} {
		var events []docroot.Event
		for _, at := range c.events {
			events = append(events, docroot.Event{At: at, Path: "/x", What: "touched"})
		}
		got := docroot.SettleTimes(events, c.empty)["/x"]
		if len(got) != len(c.want) {
			t.Errorf("%s: due at %v, want %v", c.name, got, c.want)
			continue
		}
		for i := range got {
			if d := got[i] - c.want[i]; d < -20*ms || d > 20*ms {
				t.Errorf("%s: due at %v, want %v", c.name, got, c.want)
			}
		}
	}
}

// Where the system reports when a file is closed, it is due at once; unless that happens often, or while much is being created.
func TestClosedFilesAreDueAtOnce(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	type events = []docroot.Event
	type times = map[string][]time.Duration
	burst := events{}
	for i := range time.Duration(100) {
		path := fmt.Sprintf("/%d.html", i)
		burst = append(burst, docroot.Event{At: i * 10 * ms, Path: path, What: "created"}, docroot.Event{At: i * 10 * ms, Path: path, What: "complete"})
	}
	for _, c := range []struct {
		name   string
		events events
		empty  bool
		want   times
	}{
		{"saved", events{{0, "/x", "written"}, {0, "/x", "complete"}}, false, times{"/x": {0}}},
		{"saved slowly", events{{0, "/x", "written"}, {0, "/x", "written"}, {900 * ms, "/x", "written"}, {5 * s, "/x", "complete"}}, false, times{"/x": {5 * s}}},
		{"saved by renaming", events{{0, "/x.new", "created"}, {0, "/x.new", "complete"}, {5 * ms, "/x.new", "left"}, {5 * ms, "/x", "complete"}}, false,
			times{"/x.new": {0, 35 * ms}, "/x": {5 * ms}}},
		{"saved and then chmod", events{{0, "/x", "complete"}, {1 * ms, "/x", "touched"}}, false, times{"/x": {0, 31 * ms}}},
		{"saved twice", events{{0, "/x", "complete"}, {500 * ms, "/x", "complete"}, {3 * s, "/x", "complete"}}, false, times{"/x": {0, 515 * ms, 3 * s}}},
		{"closed empty", events{{0, "/x", "complete"}}, true, times{"/x": {1 * s}}},
		{"a writer that never closes", events{{0, "/x", "written"}, {1 * ms, "/x", "written"}, {40 * s, "/x", "complete"}}, false, times{"/x": {30 * s, 40 * s}}},
		{"truncated by name", events{{0, "/x", "written"}}, false, times{"/x": {15 * ms}}},
		{"linked", events{{0, "/x", "created"}}, false, times{"/x": {15 * ms}}},
		{"removed", events{{0, "/x", "left"}}, false, times{"/x": {15 * ms}}},
		{"in a other directory", events{{0, "/d", "other directory"}, {100 * ms, "/d/x", "complete"}, {3 * s, "/d/y", "complete"}}, false,
			times{"/d": {2 * s}, "/d/x": {2 * s}, "/d/y": {3 * s}}},
		{"beside robots.txt", events{{0, "/robots.txt", "written"}, {0, "/robots.txt", "written"}, {1 * s, "/x", "complete"}, {3 * s, "/robots.txt", "complete"}}, false,
			times{"/x": {3 * s}, "/robots.txt": {3 * s}}},
		{"a burst", append(slices.Clone(burst), docroot.Event{At: 2 * s, Path: "/y", What: "complete"}), false,
			times{"/0.html": {0}, "/3.html": {30 * ms}, "/4.html": {1090 * ms}, "/50.html": {1090 * ms}, "/99.html": {1090 * ms}, "/y": {2 * s}}},
	} {
		got := docroot.SettleTimes(c.events, c.empty)
		for path, want := range c.want {
			if !slices.Equal(got[path], want) {
				t.Errorf("%s: %s is due at %v, want %v", c.name, path, got[path], want)
			}
		}
	}
}

func TestDebounceOfTooManyPaths(t *testing.T) {
	if n := docroot.SettleMany(1 << 17); n != 1<<16 {
		t.Errorf("%d paths are followed", n)
	}
}
