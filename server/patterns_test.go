package server_test

import (
	"testing"

	"github.com/parleyweb/parley/server"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		place    string
		want     bool
	}{
		{nil, "a", false},
		{[]string{"a"}, "a", true},
		{[]string{"a"}, "b/a", true},
		{[]string{"a"}, "a/b/c", true}, // a directory above
		{[]string{"a"}, "ab", false},
		{[]string{"drafts/"}, "drafts/x/y", true},
		{[]string{"drafts/"}, "drafts/", true},
		{[]string{"/drafts/**"}, "b/drafts/x", false},
		{[]string{"**/drafts/**"}, "b/drafts/x", true},
		{[]string{"*.{bak,old}"}, "x/y.old", true},
		{[]string{"x", "y"}, "", false},
	} {
		p, err := server.ParsePatterns(c.patterns)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(c.place); got != c.want {
			t.Errorf("%q matches %q: %v", c.patterns, c.place, got)
		}
	}
	for _, bad := range []string{"", "[", "/"} {
		if _, err := server.ParsePatterns([]string{bad}); err == nil && bad != "/" {
			t.Errorf("%q is taken", bad)
		}
	}
}
