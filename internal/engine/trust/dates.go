package trust

import (
	"fmt"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Worth says how far dates of modification can be used.
type Worth uint8

const (
	Unproved Worth = iota // too little evidence
	Good                  // they move when pages do
	Now                   // they are the time of the request
	Alike                 // nearly all the same: a date of the file, not of pages
	Absurd                // mostly beyond the limits: before 1993 or in the future (P13)
	Frozen                // pages change and the dates do not
	False                 // the dates change and the pages do not
)

func (w Worth) String() string {
	names := [...]string{"unproved", "good", "always now", "all alike", "absurd", "frozen", "false"}
	if int(w) < len(names) {
		return names[w]
	}
	return fmt.Sprintf("Worth(%d)", uint8(w))
}

// Signal reports whether a changed date is a notice of a change.
func (w Worth) Signal() bool { return w == Unproved || w == Good || w == Frozen }

// Dates is the reliability of one kind of a site's dates: those of its sitemap, its manifest or its
// Last-Modified headers. [Record.Date] creates it.
type Dates struct {
	Name string

	// Counts of recent visits, older ones at half their weight and less. Right: the date had moved and the
	// page had changed. Wrong: only the date had moved. Missed: only the page had changed. Quiet: neither.
	Right, Wrong, Missed, Quiet float32

	Late   float32 // of Right and Wrong, those dated at the moment of reading
	Absurd float32 // dates beyond the limits (P13)

	census Worth // judgement of the file as a whole, when it was read last
}

const (
	enough      = 10  // number of dates in a file for a judgement as a whole
	nearly      = 0.9 // of them
	enoughWrong = 8   // visits after a moved date; bad if more than 3 in 4 found no change
	enoughSeen  = 5   // changes; bad if half of them were not told
	enoughGood  = 10  // visits with hardly anything wrong
	reading     = 2 * time.Minute
)

// A Sight is a source's date of a page and the result of a visit.
type Sight struct {
	Stated time.Time     // by the source, now
	Span   time.Duration // its granularity
	Before time.Time     // by the same source at the last visit; zero: unknown
	Last   time.Time     // visit before; zero: none, and the visit is ignored
	Read   time.Time     // when the source was read
	Asked  time.Time     // this visit
	// Changed is as in Seen. It may be false for a change after Read.
	Changed bool
	Limits  protocol.DateLimits // of Stated
}

// Visit records a visit. A date that moved between the last visit and this one without a clear order is
// ignored.
func (d *Dates) Visit(s Sight) {
	if s.Stated.IsZero() || s.Last.IsZero() || s.Read.Before(s.Last) {
		return
	}
	stated, sane := protocol.SaneModified(s.Stated, s.Read, s.Limits)
	if !sane {
		d.Absurd++
		d.age()
		return
	}
	same := s.Stated.Equal(s.Before)
	moved := !same && stated.Add(s.Span).After(s.Last)
	switch {
	case !same && !moved && !s.Before.IsZero():
		return // it moved to a time before our last visit: a late notice of a version that we had
	case same && s.Span > 0 && stated.Add(s.Span).After(s.Last):
		return // a second change on the same day is indistinguishable
	case moved && s.Changed:
		d.Right++
	case moved:
		d.Wrong++
	case s.Changed && s.Asked.Sub(s.Read) > time.Hour:
		return // it may have changed since the source was read
	case s.Changed:
		d.Missed++
	default:
		d.Quiet++
	}
	if moved && s.Span == 0 && s.Read.Sub(stated) < reading && s.Read.Sub(s.Last) > 5*reading {
		d.Late++
	}
	d.age()
}

// LeftOut records that a visit found a change that the source, read again since then, does not show.
func (d *Dates) LeftOut() {
	d.Missed++
	d.age()
}

// age halves the weight of old visits. Those at which nothing happened do not age the others: of pages that are visited far more often than
// they change there would be no evidence.
func (d *Dates) age() {
	if d.Quiet > memory {
		d.Quiet /= 2
	}
	if d.Right+d.Wrong+d.Missed+d.Absurd <= memory {
		return
	}
	for _, f := range d.counts() {
		*f /= 2
	}
}

// build is the time in which a site may rewrite all its pages: dates that are no further apart are that of
// the build.
const build = 2 * time.Minute

// Census judges a file of dates as a whole, read at one moment; the judgement holds until the next one.
// Entries without a date are zero Dates. It needs at least 10 dates for a judgement.
func (d *Dates) Census(dates []protocol.Date, read time.Time, limits protocol.DateLimits) {
	d.census = Unproved
	var stated, absurd, now int
	times := make(map[int64]int)
	most := 0
	for _, t := range dates {
		if t.Time.IsZero() {
			continue
		}
		stated++
		at, sane := protocol.SaneModified(t.Time, read, limits)
		if !sane {
			absurd++
			continue
		}
		if t.Span == 0 && read.Sub(at) < reading {
			now++
		}
		if build := t.Time.UnixMilli() / build.Milliseconds(); len(times) < 1<<16 || times[build] > 0 {
			times[build]++
		}
	}
	for at, n := range times {
		most = max(most, n+times[at+1])
	}
	limit := nearly * float64(stated)
	switch {
	case stated < enough:
	case float64(absurd) > limit:
		d.census = Absurd
	case float64(now) > limit:
		d.census = Now
	case float64(most) > limit:
		d.census = Alike
	}
}

// Worth judges the dates. Visits that prove them good outweigh the look of the file: a site that is rebuilt
// every night may well have one date for all pages. Always-now dates are detected by the first file of 10
// entries or by 8 visits, frozen ones by 5 changes that they did not show.
func (d *Dates) Worth() Worth {
	moved, changed := d.Right+d.Wrong, d.Right+d.Missed
	all := moved + d.Missed + d.Quiet
	switch {
	case d.Absurd >= enough && d.Absurd > nearly*(all+d.Absurd):
		return Absurd
	case moved >= enoughWrong && d.Wrong > 0.75*moved:
		if d.Late > 0.75*moved {
			return Now
		}
		return False
	case changed >= enoughSeen && d.Missed >= 0.5*changed:
		return Frozen
	case all >= enoughGood && d.Right >= 3 && d.Wrong <= 0.25*moved && d.Missed <= 0.1*changed:
		return Good
	}
	return d.census
}

// String describes the judgement and its evidence for people.
func (d *Dates) String() string {
	return fmt.Sprintf("%s: dates %s (recent visits: %.0f right, %.0f wrong, %.0f changes missed)", d.Name, d.Worth(), d.Right, d.Wrong, d.Missed)
}

func (d *Dates) counts() [6]*float32 {
	return [...]*float32{&d.Right, &d.Wrong, &d.Missed, &d.Quiet, &d.Late, &d.Absurd}
}

func (d *Dates) append(b []byte) []byte {
	b = append(appendName(b, d.Name), byte(d.census))
	for _, f := range d.counts() {
		// A precision of a few percent is enough, in two bytes.
		b = append(b, byte(int(*f*256)), byte(int(*f*256)>>8))
	}
	return b
}

func (t *Dates) read(d *decoder) {
	t.Name = d.name()
	t.census = Worth(d.byte())
	if t.census > False {
		d.bad = true
	}
	for _, f := range t.counts() {
		*f = float32(int(d.byte())|int(d.byte())<<8) / 256
	}
}
