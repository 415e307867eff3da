package trust

import (
	"fmt"
	"math"
	"time"
)

// Rules are the numbers of the trust rule, for which the thesis gives none.
// The zero value is the default of each, as the package documentation states them.
type Rules struct {
	// Lies after which a voice that was never right is mute. Zero means 20.
	Lies int

	// Mute is how long it is mute for the first time, MaxMute at most. Zero
	// means an hour, and a week.
	Mute, MaxMute time.Duration

	// Samples is how many notices are taken in a mute period. Zero means 4.
	Samples int
}

const (
	rightCredit = 0.25 // what a right notice brings: lies are forgiven to 1 in 5
	rightHope   = 3    // and to 3 in 4
	leastShare  = 0.125
	memory      = 64 // recent notices that make up the share
)

func (r Rules) lies() float32 {
	if r.Lies <= 0 {
		return 20
	}
	return float32(min(r.Lies, 1<<20))
}

func (r Rules) most() float32   { return 2 * r.lies() } // credit and hope that can be had
func (r Rules) reopen() float32 { return r.lies() / 4 }

func (r Rules) samples() int64 {
	if r.Samples <= 0 {
		return 4
	}
	return int64(r.Samples)
}

// period is how long a voice is mute for the level-th time, in milliseconds.
func (r Rules) period(level uint8) int64 {
	first, most := r.Mute, r.MaxMute
	if first <= 0 {
		first = time.Hour
	}
	if most <= 0 {
		most = 7 * 24 * time.Hour
	}
	p := max(first.Milliseconds(), 1)
	top := max(most.Milliseconds(), p)
	for range max(int(level), 1) - 1 {
		if p *= 2; p >= top {
			break
		}
	}
	return min(p, top)
}

// A Voice is one way by which a site speaks, and how it did so far. Its fields
// are to be read; only [Rules] change them. It begins by [Record.Voice].
type Voice struct {
	Name string

	Taken, Ignored uint32 // notices, samples among those that were taken
	Right, Wrong   uint32 // as they turned out

	Credit, Hope float32
	Thin         bool  // without credit, and not yet trusted again
	Level        uint8 // how often it fell mute since it was trusted last

	right, wrong float32 // lately
	share        float32 // of a notice, due since the last that was taken
	until        int64   // the mute period ends, Unix milliseconds
	sampled      int64   // when the last sample was taken
	lied         bool    // a sample of this period was a lie
	begun        bool
}

// begin gives a new voice its accounts.
func (r Rules) begin(v *Voice) {
	if !v.begun {
		v.begun, v.Credit, v.Hope = true, r.lies(), r.lies()
		// What Bing found of sitemaps' dates in 2023: 79 in 100 right; it weighs 4 notices.
		v.right, v.wrong = 3.2, 0.8
	}
}

// A Verdict says what becomes of a notice.
type Verdict uint8

const (
	Take   Verdict = iota // visit the page soon
	Sample                // the same, to see whether the voice still lies
	Ignore                // as if nothing had been said
)

func (v Verdict) String() string {
	switch v {
	case Take:
		return "take"
	case Sample:
		return "sample"
	case Ignore:
		return "ignore"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Taken reports whether the page is to be visited because of the notice.
func (v Verdict) Taken() bool { return v != Ignore }

// Notice decides about a notice that has come: that a known page has changed
// or gone, or that there is a new one. The same page said twice before it is
// visited is one notice.
func (r Rules) Notice(v *Voice, now time.Time) Verdict {
	r.begin(v)
	d := r.decide(v, now.UnixMilli())
	if d == Ignore {
		v.Ignored = more(v.Ignored)
	} else {
		v.Taken = more(v.Taken)
	}
	return d
}

func (r Rules) decide(v *Voice, now int64) Verdict {
	if v.Hope > 0 {
		if !v.Thin {
			return Take
		}
		v.share = min(v.share+v.taken(), 2)
		if v.share < 1 {
			return Ignore
		}
		v.share--
		return Take
	}
	p := r.period(v.Level)
	v.until = min(v.until, now+p) // a clock may have been set back
	v.sampled = max(min(v.sampled, now), 0)
	if now >= v.until {
		// Nobody is punished for the time in which he said nothing.
		if v.lied {
			v.Level = min(v.Level+1, math.MaxUint8-1)
			p = r.period(v.Level)
		}
		v.until, v.lied = now+p, false
	}
	if now-v.sampled < p/r.samples() {
		return Ignore
	}
	v.sampled = now
	return Sample
}

// An Outcome is what a notice turned out to be.
type Outcome int8

const (
	Void  Outcome = iota // it cannot be said
	Right                // there was something to see
	Wrong                // a lie, or a mistake: it costs as much
)

func (o Outcome) String() string {
	switch o {
	case Void:
		return "void"
	case Right:
		return "right"
	case Wrong:
		return "wrong"
	}
	return fmt.Sprintf("Outcome(%d)", int8(o))
}

// Outcome takes in how a notice turned out. It may also be told of notices
// that were ignored, where a visit for another reason shows it. Void changes nothing.
func (r Rules) Outcome(v *Voice, o Outcome, now time.Time) {
	r.begin(v)
	switch o {
	case Right:
		v.Right, v.right = more(v.Right), v.right+1
		v.Credit = min(v.Credit+rightCredit, r.most())
		v.Hope = min(v.Hope+rightHope, r.most())
		if v.Thin && v.Credit >= r.reopen() {
			v.Thin, v.Level, v.share = false, 0, 0
		}
	case Wrong:
		mute := v.Hope <= 0
		v.Wrong, v.wrong = more(v.Wrong), v.wrong+1
		v.Credit, v.Hope = max(v.Credit-1, 0), max(v.Hope-1, 0)
		v.Thin = v.Thin || v.Credit <= 0
		switch {
		case mute:
			v.lied = true
		case v.Hope <= 0:
			v.Level = min(v.Level+1, math.MaxUint8-1)
			v.until, v.sampled, v.lied = now.UnixMilli()+r.period(v.Level), now.UnixMilli(), false
		}
	default:
		return
	}
	if v.right+v.wrong > memory {
		v.right, v.wrong = v.right/2, v.wrong/2
	}
}

// Muted reports whether the voice is mute, and until when at least. It may be
// brought back earlier by a sample.
func (v *Voice) Muted() (until time.Time, mute bool) {
	if !v.begun || v.Hope > 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(v.until), true
}

// taken is the share of its notices that were right lately, as it is taken
// from a voice that is partly honest: at least 1/8, at most 1. Before the
// first notice it is what is believed of sites in general.
func (v *Voice) taken() float32 {
	if v.right+v.wrong <= 0 {
		return 0.8
	}
	return min(max(v.right/(v.right+v.wrong), leastShare), 1)
}

// Room is how many notices of the voice may be under way, taken and not yet
// judged: else whoever sends thousands before the first is visited would be
// fetched by the thousand. It is the credit at first, more for a voice that was
// often right, 1,000 at most, and 1 at least. What waits for room is not lost.
func (r Rules) Room(v *Voice) int {
	r.begin(v)
	room := v.Credit * (1 + float32(v.Right)/160)
	if v.Thin {
		room = v.Hope
	}
	return int(min(max(room, 1), 1000))
}

// String says for people where the voice stands.
func (v *Voice) String() string {
	said := fmt.Sprintf("%s: %d right, %d wrong", v.Name, v.Right, v.Wrong)
	until, mute := v.Muted()
	switch {
	case mute:
		return said + ": mute until " + until.UTC().Format(time.RFC3339) + ", sampled"
	case v.Thin:
		return said + fmt.Sprintf(": %.0f %% of its notices are taken", 100*v.taken())
	}
	return said + ": believed"
}

// more counts up, and stays at the end.
func more(n uint32) uint32 {
	if n == math.MaxUint32 {
		return n
	}
	return n + 1
}
