package html_test

import (
	"testing"

	"github.com/parleyweb/parley/internal/html"
)

func TestRobotsTag(t *testing.T) {
	for value, want := range map[string]bool{
		"noindex": true, "none": true, "NOINDEX, nofollow": true, "nofollow, noindex": true, "parley: noindex": true, "*: noindex": true,
		"max-snippet: 3, noindex": true, "unavailable_after: 25 Jun 2030 15:00:00 PST, noindex": true,
		"": false, "index": false, "googlebot: noindex": false, "googlebot: nofollow, noindex": false, "noindexed": false, "nofollow": false,
	} {
		if got := html.RobotsTag([]string{value}, "").NoIndex; got != want {
			t.Errorf("%q is %v", value, got)
		}
	}
}

// A name speaks for what follows it, up to the next one.
func TestRobotsTagOfNames(t *testing.T) {
	got := html.RobotsTag([]string{"otherbot: noindex, thebot: nofollow, noarchive", "noindex: no name"}, "theBot")
	if want := (html.Directives{NoFollow: true, NoArchive: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
