package html_test

import (
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/html"
)

func TestUnavailableAfter(t *testing.T) {
	for list, want := range map[string]string{
		"unavailable_after: 25-Aug-2007 15:00:00 EST":                     "2007-08-25T20:00:00Z",
		"unavailable_after: 25 Jun 2010 15:00:00 PST":                     "2010-06-25T23:00:00Z",
		"noindex, Unavailable_After: Wed, 03 Aug 2050 15:00:00 GMT, none": "2050-08-03T15:00:00Z",
		"unavailable_after: Wednesday, 03-Aug-22 15:00:00 UTC":            "2022-08-03T15:00:00Z",
		"unavailable_after:2020-09-21":                                    "2020-09-21T00:00:00Z",
		"unavailable_after: 2020-09-21T12:30:00+02:00, nofollow":          "2020-09-21T10:30:00Z",
		"unavailable_after": "", "unavailable_after: soon": "", "noindex": "", "": "", "unavailable_after:,,,": "",
	} {
		got := ""
		if at := html.UnavailableAfter([]byte(list)); !at.IsZero() {
			got = at.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
	page := []byte(`<head><meta name=robots content="max-snippet:3, unavailable_after: 2020-09-21"><meta name=parley content="unavailable_after: 2019-01-01"></head><body>x`)
	var s html.Scanner
	s.Scan(page)
	if p := html.Read("http://a.example/", page, html.Options{}); p.UnavailableAfter.Year() != 2019 || s.Head.UnavailableAfter != p.UnavailableAfter {
		t.Errorf("read %v, scanned %v", p.UnavailableAfter, s.Head.UnavailableAfter)
	}
}

func FuzzUnavailableAfter(f *testing.F) {
	f.Add([]byte("noindex, unavailable_after: Wed, 03 Aug 2050 15:00:00 GMT, none"))
	f.Fuzz(func(t *testing.T, list []byte) {
		if at := html.UnavailableAfter(list); !at.IsZero() && at.Location() != time.UTC {
			t.Errorf("%q: %v", list, at)
		}
	})
}
