package trust

import (
	"fmt"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Worth says what dates of modification are good for.
type Worth uint8

const (
	Unproved Worth = iota // too little was seen
	Good                  // they move when pages do
	Now                   // they are those of the moment at which they are asked for
	Alike                 // nearly all the same: a date of the file, not of pages
	Absurd                // mostly before 1993 or in the future (P13)
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

// Signal reports whether a date that has moved is a notice of a change.
func (w Worth) Signal() bool { return w == Unproved || w == Good || w == Frozen }

// Dates is how honest the dates of one kind are that a site states: those of
// its sitemap, its manifest or its Last-Modified headers. It begins by [Record.Date].
type Dates struct {
	Name string

	// What visits showed lately, older ones at half their weight and less: the
	// date had moved and the page had changed; it had not changed; the date
	// had not moved, and the page had changed; or had not.
	Right, Wrong, Missed, Quiet float32

	Late   float32 // of Right and Wrong, those with the date of their own reading
	Absurd float32 // dates that P13 ignores

	census Worth // what the file as a whole was, when it was read last
}

const (
	enough      = 10  // dates in a file, for it to be judged as a whole
	nearly      = 0.9 // of them
	enoughWrong = 8   // visits, of which 3 in 4 were for nothing, and no more
	enoughSeen  = 5   // changes, of which the half was not told
	enoughGood  = 10  // visits with nothing wrong to speak of
	reading     = 2 * time.Minute
)

// A Sight is what a source says of a page and what a visit shows.
type Sight struct {
	Stated time.Time     // by the source, now
	Span   time.Duration // how coarse
	Before time.Time     // by the same source at the last visit; zero: unknown
	Last   time.Time     // visit before; zero: none, then nothing is learned
	Read   time.Time     // when the source said it
	Asked  time.Time     // this visit
	// Changed as in Seen. It may say nothing of what changed after Read.
	Changed bool
}

// Visit takes a visit in. Whatever moved between the last visit and this one
// without a clear order proves nothing.
func (d *Dates) Visit(s Sight) {
	if s.Stated.IsZero() || s.Last.IsZero() || s.Read.Before(s.Last) {
		return
	}
	stated, sane := protocol.SaneModified(s.Stated, s.Read)
	if !sane {
		d.Absurd++
		d.age()
		return
	}
	same := s.Stated.Equal(s.Before)
	moved := !same && stated.Add(s.Span).After(s.Last)
	switch {
	case !same && !moved && !s.Before.IsZero():
		return // it moved, to a time before our last visit: told too late, of what we had
	case same && s.Span > 0 && stated.Add(s.Span).After(s.Last):
		return // a second change on the same day cannot be told
	case moved && s.Changed:
		d.Right++
	case moved:
		d.Wrong++
	case s.Changed && s.Asked.Sub(s.Read) > time.Hour:
		return // it may have changed since the source spoke
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

// LeftOut takes in that a visit found a change, and that the source, read again since then, does not tell of it.
func (d *Dates) LeftOut() {
	d.Missed++
	d.age()
}

// age lets old visits weigh less.
func (d *Dates) age() {
	if d.Right+d.Wrong+d.Missed+d.Quiet+d.Absurd <= memory {
		return
	}
	for _, f := range [...]*float32{&d.Right, &d.Wrong, &d.Missed, &d.Quiet, &d.Late, &d.Absurd} {
		*f /= 2
	}
}

// build is how long it takes to write all pages of a site anew: dates that are no
// further apart are that of the build.
const build = 2 * time.Minute

// Census judges a file of dates as a whole, that was read at one moment: what
// it finds holds until the next one. Entries without a date are zero Dates. It
// needs at least 10 dates to say anything.
func (d *Dates) Census(dates []protocol.Date, read time.Time) {
	d.census = Unproved
	var stated, absurd, now int
	times := make(map[int64]int)
	most := 0
	for _, t := range dates {
		if t.Time.IsZero() {
			continue
		}
		stated++
		at, sane := protocol.SaneModified(t.Time, read)
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

// Worth says what the dates are good for. Visits that prove them good weigh
// more than how the file looks: a site that is built anew every night may well
// have one date for all. Always-now dates are found out by the first file of 10
// entries or by 8 visits, frozen ones by 5 changes that they did not tell.
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

// String says for people what the dates are worth, and why.
func (d *Dates) String() string {
	return fmt.Sprintf("%s: dates %s (of the last visits %.0f right, %.0f wrong, %.0f changes not told)", d.Name, d.Worth(), d.Right, d.Wrong, d.Missed)
}

func (d *Dates) append(b []byte) []byte {
	b = append(appendName(b, d.Name), byte(d.census))
	for _, f := range [...]float32{d.Right, d.Wrong, d.Missed, d.Quiet, d.Late, d.Absurd} {
		// A few percent are enough, in two bytes.
		b = append(b, byte(int(f*256)), byte(int(f*256)>>8))
	}
	return b
}

func (t *Dates) read(d *decoder) {
	t.Name = d.name()
	t.census = Worth(d.byte())
	if t.census > False {
		d.bad = true
	}
	for _, f := range [...]*float32{&t.Right, &t.Wrong, &t.Missed, &t.Quiet, &t.Late, &t.Absurd} {
		*f = float32(int(d.byte())|int(d.byte())<<8) / 256
	}
}
