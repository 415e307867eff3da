package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/protocol"
)

const day = 24 * time.Hour

func TestParseDate(t *testing.T) {
	for _, c := range []struct {
		in, want string // want in RFC 3339, UTC
		span     time.Duration
		out      string // as written again, if different
	}{
		{"2004", "2004-01-01T00:00:00Z", 366 * day, ""},
		{"2005", "2005-01-01T00:00:00Z", 365 * day, ""},
		{"2004-10", "2004-10-01T00:00:00Z", 31 * day, ""},
		{"2004-02", "2004-02-01T00:00:00Z", 29 * day, ""},
		{"2004-10-01", "2004-10-01T00:00:00Z", day, ""},
		{"2004-02-29", "2004-02-29T00:00:00Z", day, ""},
		{"2004-10-01T12:05Z", "2004-10-01T12:05:00Z", time.Minute, ""},
		{"2004-10-01T12:05+02:00", "2004-10-01T10:05:00Z", time.Minute, "2004-10-01T10:05Z"},
		{"2004-10-01T00:05+02:00", "2004-09-30T22:05:00Z", time.Minute, "2004-09-30T22:05Z"},
		{"2004-12-31T23:59:59-05:30", "2005-01-01T05:29:59Z", 0, "2005-01-01T05:29:59Z"},
		{"2004-10-01T12:05:00Z", "2004-10-01T12:05:00Z", 0, ""},
		{"2004-10-01T12:05:06.7Z", "2004-10-01T12:05:06.7Z", 0, "2004-10-01T12:05:06.700Z"},
		{"2004-10-01T12:05:06.789999999+00:00", "2004-10-01T12:05:06.789Z", 0, "2004-10-01T12:05:06.789Z"},
		{"2004-10-01T12:05:06.000Z", "2004-10-01T12:05:06Z", 0, "2004-10-01T12:05:06Z"},
		{"0001-01-02", "0001-01-02T00:00:00Z", day, ""},
		{"0000-12-31T23:00-02:00", "0001-01-01T01:00:00Z", time.Minute, "0001-01-01T01:00Z"},
		{"9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z", 0, ""},
		{"9999", "9999-01-01T00:00:00Z", 365 * day, ""},
	} {
		d, err := protocol.ParseDate(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := d.Time.Format(time.RFC3339Nano); got != c.want || d.Span != c.span || d.Time.Location() != time.UTC {
			t.Errorf("%s: %s span %v, want %s span %v", c.in, got, d.Span, c.want, c.span)
		}
		if c.out == "" {
			c.out = c.in
		}
		if got := d.String(); got != c.out {
			t.Errorf("%s written again: %s, want %s", c.in, got, c.out)
		}
	}
	for _, bad := range []string{
		"", " ", "now", "04", "200", "20041", "2004-", "2004-1", "2004-13", "2004-00", "2004-10-", "2004-10-1", "2004-10-00",
		"2004-02-30", "2005-02-29", "2004-10-01T", "2004-10-01T12", "2004-10-01T12:05", "2004-10-01T12:05:06",
		"2004-10-01T1:05Z", "2004-10-01T24:00Z", "2004-10-01T12:60Z", "2004-10-01T12:05:60Z", "2004-10-01T12:05:06.Z",
		"2004-10-01T12:05:06,7Z", "2004-10-01 12:05Z", "2004-10-01t12:05z", "2004-10-01T12:05+2:00", "2004-10-01T12:05+0200",
		"2004-10-01T12:05+24:00", "2004-10-01T12:05+02:60", "2004-10-01T12:05Zulu", "2004-10-01T12:05ZZ", "2004-10-01Z",
		"2004-10-01T12:05:06." + strings.Repeat("1", 31) + "Z", "-2004", "+2004", "20\u0660\u0664",
		"Fri, 01 Oct 2004 12:05:00 GMT", "10000-01-01",
		"0000", "0000-06-01", "0001", "0001-01-01T00:00:00Z", "0001-01-01T00:30:00+01:00", "9999-12-31T23:30:00-01:00",
	} {
		if d, err := protocol.ParseDate(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, d)
		}
	}
}

func TestFormatDate(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for want, in := range map[string]time.Time{
		"":                         {},
		"2004-10-01T10:05:00Z":     time.Date(2004, 10, 1, 12, 5, 0, 999_999, zone),
		"2004-10-01T10:05:00.001Z": time.Date(2004, 10, 1, 12, 5, 0, 1_999_999, zone),
		"2004-10-01T10:05:00.120Z": time.Date(2004, 10, 1, 12, 5, 0, 120_000_000, zone),
	} {
		if got := protocol.FormatDate(in); got != want {
			t.Errorf("%v: %q, want %q", in, got, want)
		}
	}
	for _, untold := range []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 30, 0, 0, time.FixedZone("", -3600)),
		time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}.Add(1),
	} {
		if got := protocol.FormatDate(untold); got != "" {
			t.Errorf("%v: %q", untold, got)
		}
	}
	// A span that does not match a granularity of its time is not written as one.
	odd := protocol.Date{Time: date("2004-10-01T12:05:06Z"), Span: day}
	if got := odd.String(); got != "2004-10-01T12:05:06Z" {
		t.Errorf("%v: %s", odd, got)
	}
}

func TestSaneModified(t *testing.T) {
	now := date("2026-11-21T05:00:00Z")
	for _, c := range []struct {
		in, want string // want empty: ignored
	}{
		{"1992-12-31T23:59:59Z", ""},
		{"1992-12-31", ""},
		{"1993-01-01", "1993-01-01T00:00:00Z"},
		{"2026-11-21T05:00:00Z", "2026-11-21T05:00:00Z"},
		{"2026-11-21T05:00:01Z", "2026-11-21T05:00:00Z"},
		{"2026-11-22T05:00:00Z", "2026-11-21T05:00:00Z"},
		{"2026-11-22T05:00:01Z", ""},
		{"9999", ""},
	} {
		got, ok := protocol.SaneModified(date(c.in), now, protocol.DateLimits{})
		if ok != (c.want != "") || protocol.FormatDate(got) != c.want {
			t.Errorf("%s: %v %v, want %q", c.in, got, ok, c.want)
		}
	}
	if _, ok := protocol.SaneModified(time.Time{}, now, protocol.DateLimits{}); ok {
		t.Error("the zero time is accepted")
	}
	for _, c := range []struct {
		limits   protocol.DateLimits
		in, want string
	}{
		{protocol.DateLimits{Earliest: date("2000-06-01")}, "2000-05-31T23:59:59Z", ""},
		{protocol.DateLimits{Earliest: date("2000-06-01")}, "2000-06-01", "2000-06-01T00:00:00Z"},
		{protocol.DateLimits{Earliest: date("1970")}, "1970", "1970-01-01T00:00:00Z"},
		{protocol.DateLimits{Earliest: date("1970")}, "2026-11-22T05:00:01Z", ""},
		{protocol.DateLimits{Ahead: time.Hour}, "2026-11-21T06:00:00Z", "2026-11-21T05:00:00Z"},
		{protocol.DateLimits{Ahead: time.Hour}, "2026-11-21T06:00:01Z", ""},
		{protocol.DateLimits{Ahead: -1}, "2026-11-21T05:00:00Z", "2026-11-21T05:00:00Z"},
		{protocol.DateLimits{Ahead: -1}, "2026-11-21T05:00:01Z", ""},
	} {
		got, ok := protocol.SaneModified(date(c.in), now, c.limits)
		if ok != (c.want != "") || protocol.FormatDate(got) != c.want {
			t.Errorf("%+v: %s: %v %v, want %q", c.limits, c.in, got, ok, c.want)
		}
	}
}

func FuzzDate(f *testing.F) {
	for _, s := range []string{"2004", "2004-10", "2004-10-01", "2004-10-01T12:05+02:00", "2004-10-01T12:05:06.789Z", "0000-12-31T23:00-02:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := protocol.ParseDate(s)
		if err != nil {
			return
		}
		again, err := protocol.ParseDate(d.String())
		if err != nil || !again.Time.Equal(d.Time) || again.Span != d.Span {
			t.Fatalf("%q is parsed as %v, written as %q, parsed again as %v, %v", s, d, d, again, err)
		}
		// A time with seconds is RFC 3339 and means the same there.
		if r, err := time.Parse(time.RFC3339, s); d.Span == 0 && (err != nil || !r.Truncate(time.Millisecond).Equal(d.Time)) {
			t.Fatalf("%q is %v, by RFC 3339 %v, %v", s, d, r, err)
		}
	})
}
