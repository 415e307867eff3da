package evidence

import (
	"bytes"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
)

func FuzzRecord(f *testing.F) {
	now := time.UnixMilli(1_790_000_000_000)
	for _, r := range []record{{}, {State: stateRefused, Asked: now}, {State: statePublic, Asked: now, Shown: protocol.Sum([]byte("x")), ShownAt: now, NoArchive: true},
		{State: stateSuspect, Shown: protocol.Sum(nil), ShownAt: now, Before: protocol.Sum([]byte("y")), BeforeAt: now.Add(-time.Hour)}} {
		b := r.encode()
		if got, err := parseRecord(b); err != nil || got != r {
			f.Fatalf("%+v became %+v, %v", r, got, err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(b)
		if err != nil {
			return
		}
		again, err := parseRecord(r.encode())
		if err != nil || again != r {
			t.Errorf("%x: %+v became %+v, %v", b, r, again, err)
		}
	})
}

func TestRecordShows(t *testing.T) {
	var r record
	at := time.Unix(1_790_000_000, 0)
	a, b, c := protocol.Sum([]byte("a")), protocol.Sum([]byte("b")), protocol.Sum([]byte("c"))
	r.show(a, at)
	r.show(b, at.Add(time.Hour))
	for d, want := range map[protocol.Digest]bool{a: true, b: true, c: false, {}: false} {
		if got := r.has(d, at.Add(-time.Minute)); got != want {
			t.Errorf("%v: %v", d, got)
		}
	}
	if r.has(a, at.Add(time.Minute)) || !r.has(b, at.Add(time.Minute)) {
		t.Error("old evidence counts")
	}
	if !bytes.Equal(r.encode()[:2], []byte{recordVersion, byte(stateUnknown)}) {
		t.Error("the encoded record begins with another version or state")
	}
}
