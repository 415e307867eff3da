package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Validators are the values of a conditional request, which a server answers with 304 if nothing has changed
// (RFC 9110, section 8.8).
type Validators struct{ ETag, LastModified string }

// maxValidator is the longest validator that is kept, in bytes.
const maxValidator = 256

// ValidatorsOf returns the validators of a response. One that is too long to keep is left out; both are left
// out if they cannot show the next change.
func ValidatorsOf(h http.Header) Validators {
	keep := func(name string) string {
		if s := h.Get(name); len(s) <= maxValidator && !strings.ContainsAny(s, "\r\n") {
			return s
		}
		return ""
	}
	v := Validators{keep("ETag"), keep("Last-Modified")}
	if date, err := http.ParseTime(h.Get("Date")); err == nil && !v.Show(date) {
		return Validators{}
	}
	return v
}

// Show reports whether the validators of a response sent at answered, by the server's clock, reveal every
// later change. Some miss a second change within the same second: Last-Modified alone (RFC 9110, section
// 8.8.2.2), and an ETag made of that second and the length, as nginx makes it.
func (v Validators) Show(answered time.Time) bool {
	changed, err := http.ParseTime(v.LastModified)
	if err != nil || v.ETag != "" && !strings.Contains(v.ETag, strconv.FormatInt(changed.Unix(), 16)) {
		return true
	}
	ago := answered.Unix() - changed.Unix()
	const off = 60 // seconds that clocks may differ by; a date beyond that was set by hand, and the next change gets another one
	return ago > 0 || ago < -off
}

// Header returns the header of a conditional request, not nil.
func (v Validators) Header() http.Header {
	h := http.Header{}
	if v.ETag != "" {
		h.Set("If-None-Match", v.ETag)
	}
	if v.LastModified != "" {
		h.Set("If-Modified-Since", v.LastModified)
	}
	return h
}

// RetryAfter returns the wait that Retry-After asks for, in seconds or as a date (RFC 9110, section 10.2.3):
// 0 to most, and false if it is neither.
func RetryAfter(h http.Header, now time.Time, most time.Duration) (time.Duration, bool) {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if digits := strings.TrimLeft(s, "0123456789"); s != "" && digits == "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || time.Duration(n) > most/time.Second {
			return most, true
		}
		return time.Duration(n) * time.Second, true
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return min(max(t.Sub(now), 0), most), true
}

// Expiry returns until when a response predicts that it stays current, at most a year after the request: until Expires, or else for the
// max-age of Cache-Control; the zero time if it does not say. For a cache max-age goes first; a site that sends both means Expires as a
// prediction.
func Expiry(h http.Header, asked time.Time) time.Time {
	lasts := time.Duration(0)
	for part := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 32); err == nil && strings.EqualFold(name, "max-age") {
			lasts = time.Duration(n) * time.Second
		}
	}
	expires, err := http.ParseTime(h.Get("Expires"))
	if date, wrong := http.ParseTime(h.Get("Date")); err == nil && wrong == nil && expires.After(date) { // both by the site's clock
		lasts = expires.Sub(date)
	}
	if lasts == 0 {
		return time.Time{}
	}
	return asked.Add(min(lasts, 365*24*time.Hour))
}
