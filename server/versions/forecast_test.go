package versions_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/server/versions"
)

// A page that has changed each day is predicted to change a day after its last change. Nothing is predicted of a page that has changed
// too seldom, or whose next change is overdue, and none of this changes what caches do.
func TestExpiresPredictsNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		h := &versions.Handler{Store: r.store, Journal: r.journal, Base: base, Public: r.site.Public, Expires: true}
		answer := func(path string) http.Header {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", base+path, nil))
			if w.Code != http.StatusOK {
				t.Fatalf("%s: status %d", path, w.Code)
			}
			return w.Header()
		}
		r.first(map[string][]byte{"daily.html": []byte("<p>day 0"), "once.html": []byte("<p>first")})
		if got := answer("daily.html"); got.Get("Expires") != "" || got.Get("Cache-Control") != "" {
			t.Errorf("before any change: %v", got)
		}
		var changed time.Time
		for day := 1; day <= 4; day++ {
			time.Sleep(24 * time.Hour)
			r.write("daily.html", fmt.Appendf(nil, "<p>day %d", day))
			if day == 2 {
				r.write("once.html", []byte("<p>second"))
			}
			r.look()
			changed = time.Now()
		}
		time.Sleep(time.Hour)
		got := answer("daily.html")
		at, err := http.ParseTime(got.Get("Expires"))
		if off := at.Sub(changed.Add(24 * time.Hour)); err != nil || off < -time.Minute || off > time.Minute || got.Get("Cache-Control") != "max-age=60" {
			t.Errorf("changed at %v, and predicted to change at %v (%v); caches: %q", changed, at, err, got.Get("Cache-Control"))
		}
		if got := answer("once.html"); got.Get("Expires") != "" || got.Get("Cache-Control") != "" {
			t.Errorf("a page that has changed once: %v", got)
		}
		time.Sleep(24 * time.Hour)
		if got := answer("daily.html"); got.Get("Expires") != "" {
			t.Errorf("a page whose next change is overdue: %v", got)
		}
		r.write("daily.html", []byte("<p>day 5"))
		r.look()
		h.CacheControl = "no-cache"
		if got := answer("daily.html"); got.Get("Expires") == "" || got.Get("Cache-Control") != "no-cache" {
			t.Errorf("with the operator's own Cache-Control: %v", got)
		}
		h.Expires = false
		if got := answer("daily.html"); got.Get("Expires") != "" {
			t.Errorf("turned off: %v", got)
		}
	})
}
