package fetch_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
)

// A response says how long it lasts by the clock of its server, which may be wrong.
func TestExpiry(t *testing.T) {
	const date = "Mon, 02 Mar 2026 10:00:00 GMT"
	asked := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		expires, date, control string
		lasts                  time.Duration
	}{
		{"Mon, 02 Mar 2026 12:00:00 GMT", date, "", 2 * time.Hour},
		{"Mon, 02 Mar 2026 12:00:00 GMT", date, "max-age=60", 2 * time.Hour},
		{"Mon, 02 Mar 2026 12:00:00 GMT", "", "", 0},
		{date, date, "", 0}, {"0", date, "", 0}, {"-1", date, "private, max-age=30", 30 * time.Second},
		{"Sun, 01 Mar 2026 12:00:00 GMT", date, `public, Max-Age="3600"`, time.Hour},
		{"", date, "max-age=0", 0}, {"", date, "max-age=-5", 0}, {"", date, "max-age", 0}, {"", date, "no-store", 0},
		{"", "", "s-maxage=5, max-age=99999999999999999999", 0},
		{"", "", "max-age=4294967295", 365 * 24 * time.Hour},
		{"Fri, 31 Dec 9999 23:59:59 GMT", date, "", 365 * 24 * time.Hour},
	} {
		h := http.Header{}
		for name, v := range map[string]string{"Expires": c.expires, "Date": c.date, "Cache-Control": c.control} {
			if v != "" {
				h.Set(name, v)
			}
		}
		want := time.Time{}
		if c.lasts > 0 {
			want = asked.Add(c.lasts)
		}
		if got := fetch.Expiry(h, asked); !got.Equal(want) {
			t.Errorf("%v: %v, want %v", h, got, want)
		}
	}
}
