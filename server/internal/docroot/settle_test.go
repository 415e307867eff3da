package docroot_test

import (
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
		got := docroot.SettleTimes(c.events, c.empty)
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

func TestDebounceOfTooManyPaths(t *testing.T) {
	if n := docroot.SettleMany(1 << 17); n != 1<<16 {
		t.Errorf("%d paths are followed", n)
	}
}
