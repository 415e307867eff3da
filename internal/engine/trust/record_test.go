package trust_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/trust"
)

// lived returns a record of a site with a history.
func lived(seed uint64) *trust.Record {
	r := rand.New(rand.NewPCG(seed, 9))
	var rec trust.Record
	var rules trust.Rules
	now := start
	for range r.IntN(400) {
		now = now.Add(time.Duration(r.IntN(5000)) * time.Second)
		name := []string{"stream", "manifest", "sitemap", "feed", "indexnow", "a name that exceeds the limit"}[r.IntN(6)]
		v := rec.Source(name)
		rules.Notice(v, now)
		rules.Outcome(v, trust.Outcome(r.IntN(3)), now)
		rec.Date(name).Visit(trust.Sight{Stated: now.Add(-time.Hour), Last: now.Add(-24 * time.Hour), Read: now, Asked: now, Changed: r.IntN(2) == 0})
	}
	return &rec
}

func TestRecordRoundTrip(t *testing.T) {
	for seed := range uint64(50) {
		rec := lived(seed)
		b := rec.Append(nil)
		if len(b) > 700 {
			t.Errorf("a record of %d bytes", len(b))
		}
		got, err := trust.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		// What is written of dates is rounded; the second writing is exact.
		again, err := trust.Parse(got.Append(nil))
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("seed %d: read again: %v\n%+v\n%+v", seed, err, got, again)
		}
		if !reflect.DeepEqual(got.Sources, rec.Sources) {
			t.Fatalf("seed %d:\n%+v\nwant\n%+v", seed, got, *rec)
		}
		for i := range b {
			if _, err := trust.Parse(b[:i]); err == nil && i > 0 {
				t.Fatalf("seed %d: %d of %d bytes are parsed as a record", seed, i, len(b))
			}
		}
	}
}

// A site is judged by text when hardly any of its bodies had its digest, and by bodies once they do again.
func TestSiteWithUnstableBodiesIsJudgedByText(t *testing.T) {
	var b trust.Bodies
	is := func(want, wantRestless bool, when string) {
		t.Helper()
		if is, restless := b.ByText(); is != want || restless != wantRestless {
			t.Errorf("%s: by text %v, restless %v: %+v", when, is, restless, b)
		}
	}
	for range 3 {
		b.Count(&b.Unstable)
	}
	is(false, false, "three pages that differ each time")
	b.Count(&b.Unstable)
	is(true, false, "four")
	for range 3 {
		b.Count(&b.Restless)
	}
	is(true, true, "most of them in their text")
	for range 1000 {
		b.Count(&b.Matched)
	}
	is(false, false, "all match the notices again")
	for range 10 {
		b.Count(&b.Unstable)
	}
	is(false, false, "a few of many")
	for range 1000 {
		b.Count(&b.Unstable)
	}
	is(true, false, "all differ")
}

// A record that was written before bodies were counted is read.
func TestVersion1RecordIsRead(t *testing.T) {
	rec := lived(3)
	b := rec.Append(nil)
	old := append([]byte{1}, b[1:len(b)-4]...)
	got, err := trust.Parse(old)
	if err != nil || !reflect.DeepEqual(got.Sources, rec.Sources) || got.Bodies != (trust.Bodies{}) {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestRecordBoundsSources(t *testing.T) {
	var rec trust.Record
	for i := range 100 {
		rec.Source(string(rune('a' + i)))
		rec.Date(string(rune('a' + i)))
	}
	if len(rec.Sources) != 8 || len(rec.Dates) != 8 {
		t.Errorf("%d sources and %d dates, want 8 of each", len(rec.Sources), len(rec.Dates))
	}
}

// Records come from a disk. Whatever bytes they have, a site that is honest from now
// on is believed again, and nothing panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})
	for seed := range uint64(4) {
		f.Add(lived(seed).Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := trust.Parse(b)
		if err != nil {
			return
		}
		out := rec.Append(nil)
		again, err := trust.Parse(out)
		if err != nil || !bytes.Equal(again.Append(nil), out) {
			t.Fatalf("does not round-trip: %v", err)
		}
		var rules trust.Rules
		for i := range rec.Dates {
			_ = rec.Dates[i].String()
		}
		for i := range rec.Sources {
			v := &rec.Sources[i]
			taken := 0
			for n := range 400 {
				now := start.Add(time.Duration(n) * 6 * time.Hour)
				if rules.Notice(v, now).Taken() {
					rules.Outcome(v, trust.Right, now)
					taken++
				}
			}
			_, mute := v.Muted()
			if taken == 0 || mute {
				t.Fatalf("never trusted again: %v, %+v", v, *v)
			}
		}
	})
}
