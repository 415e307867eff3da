package ping_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parleyweb/parley/internal/site/ping"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func FuzzNotes(f *testing.F) {
	for _, s := range []string{"0 0 0 false 0", "1763726400000 0 1763726400000 true 2", "", "x", "1 2 3", "9223372036854775807 -1 0 true -1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again, due := ping.RereadOwed(b, now)
		if !bytes.Equal(bytes.Join(bytes.Fields(b), []byte(" ")), again) && !due && len(bytes.Fields(b)) != 5 {
			t.Errorf("%q is lost", b)
		}
		if twice, _ := ping.RereadOwed(again, now); !bytes.Equal(twice, again) {
			t.Errorf("%q became %q and then %q", b, again, twice)
		}
	})
}

func FuzzClip(f *testing.F) {
	f.Add("<h1>502 Bad Gateway</h1>\r\n\x1b[31mnginx\x00", 10)
	f.Add("\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1000 {
			return
		}
		got := ping.Clip(s, n)
		if len(got) > n+len("...") || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q: %q", s, got)
		}
	})
}
