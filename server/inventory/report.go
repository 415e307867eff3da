package inventory

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/digits"
	"github.com/parleyweb/parley/protocol"
)

// A Report counts what a scan found, in pages.
type Report struct {
	At       time.Time     `json:"at"`       // when the scan began
	Duration time.Duration `json:"duration"` // nanoseconds

	New       int `json:"new"`
	Changed   int `json:"changed"`
	Moved     int `json:"moved"`
	Gone      int `json:"gone"`      // deletions announced
	Withdrawn int `json:"withdrawn"` // announced as gone because a rule forbids them now
	Held      int `json:"held"`      // newly vanished, not announced yet
	Returned  int `json:"returned"`  // held before, and there again unchanged
	Touched   int `json:"touched"`   // read again, and the same bytes
	Healed    int `json:"healed"`    // given the mtime that their bytes should have
	Unhealed  int `json:"unhealed"`  // could not be given it; Unhealing is the error of one of them
	Unchanged int `json:"unchanged"` // not read, or read only because their stamp was young
	LeftOut   int `json:"left_out"`  // forbidden by a rule
	Unread    int `json:"unread"`    // pages, and directories, that could not be read: what is stored of them stays
	Unsettled int `json:"unsettled"` // being changed; scanned again soon

	Unhealing string `json:"unhealing,omitempty"`

	// Unreadable has the first of what Unread counts, at most 10, by their places, with the causes.
	Unreadable map[string]string `json:"unreadable,omitempty"`

	// HeldNow counts all pages held after the scan. MassHeld reports that they are so many that a person must
	// accept their deletion: see AcceptDeletions of server.Publisher.
	HeldNow  int  `json:"held_now"`
	MassHeld bool `json:"mass_held"`

	Head protocol.Cursor `json:"head"` // of the journal after the scan
}

// ChangeCount returns how many changes the scan appended for followers.
func (r Report) ChangeCount() int { return r.New + r.Changed + r.Moved + r.Gone + r.Withdrawn }

// Add adds the counts of another pass over the same scopes.
func (r *Report) Add(o Report) {
	r.New += o.New
	r.Changed += o.Changed
	r.Moved += o.Moved
	r.Gone += o.Gone
	r.Withdrawn += o.Withdrawn
	r.Held += o.Held
	r.Returned += o.Returned
	r.Touched += o.Touched
	r.Healed += o.Healed
	r.Unhealed += o.Unhealed
	r.Unhealing = cmp.Or(r.Unhealing, o.Unhealing)
	r.Unchanged, r.LeftOut, r.Unread, r.Unsettled = o.Unchanged, o.LeftOut, o.Unread, o.Unsettled
	r.Unreadable, r.HeldNow, r.MassHeld = o.Unreadable, o.HeldNow, o.MassHeld
}

// String is one line for a person: "new 2 changed 1 moved 0 gone 0 touched
// only 4,421", and further counts where they are not zero.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "new %s changed %s moved %s gone %s", count(r.New), count(r.Changed), count(r.Moved), count(r.Gone))
	for _, x := range []struct {
		word string
		n    int
	}{{"withdrawn", r.Withdrawn}, {"held", r.HeldNow}, {"returned", r.Returned}, {"unreadable", r.Unread}, {"unsettled", r.Unsettled}} {
		if x.n > 0 {
			fmt.Fprintf(&b, " %s %s", x.word, count(x.n))
		}
	}
	fmt.Fprintf(&b, " touched only %s", count(r.Touched))
	if r.Healed > 0 {
		fmt.Fprintf(&b, " healed %s", count(r.Healed))
	}
	if r.Unhealed > 0 {
		fmt.Fprintf(&b, " not healed %s", count(r.Unhealed))
	}
	return b.String()
}

// count writes a number with commas between thousands.
func count(n int) string {
	return digits.Group(strconv.Itoa(n), ",")
}
