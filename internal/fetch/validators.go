package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Validators are what a server wants to be asked with, to answer 304 if nothing has changed
// (RFC 9110, section 8.8).
type Validators struct{ ETag, LastModified string }

// maxValidator is the longest that is kept, in bytes.
const maxValidator = 256

// ValidatorsOf returns the validators of an answer; one that is too long to keep is left out.
func ValidatorsOf(h http.Header) Validators {
	keep := func(name string) string {
		if s := h.Get(name); len(s) <= maxValidator && !strings.ContainsAny(s, "\r\n") {
			return s
		}
		return ""
	}
	return Validators{keep("ETag"), keep("Last-Modified")}
}

// Header returns the header that asks with them, not nil.
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

// RetryAfter returns how long the header of that name asks to wait, seconds or a date
// (RFC 9110, section 10.2.3): 0 to most, and false if it says neither.
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
