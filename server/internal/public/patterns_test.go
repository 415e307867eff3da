package public_test

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/server/internal/public"
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
		p, err := public.ParsePatterns(c.patterns)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(c.place); got != c.want {
			t.Errorf("%q matches %q: %v", c.patterns, c.place, got)
		}
	}
	for _, bad := range []string{"", "[", "/"} {
		if _, err := public.ParsePatterns([]string{bad}); err == nil && bad != "/" {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestLeftOutNames(t *testing.T) {
	for why, places := range map[string]string{
		"hidden": ".git/config .env a/.htpasswd .well-known2/x a/.well-known/x a/.hg/ %2egit/config .",
		"backup": "a.html~ a/b.php.bak x.OLD wp-config.php.swp old.orig/a %23a%23 a.tmp",
		"dump":   "backup.sql a/db.sql.gz x.DUMP site.dmp.zst core.sql",
		"":       " a a/b.html .well-known/security.txt 4913 posts/5036 core docs/core core.5 api/System.Core a.sql.html backup/ a..b x.sql/history %zz a%2F.b",
	} {
		for _, place := range strings.Split(places, " ") {
			if got := public.LeftOutName(place); got != why {
				t.Errorf("%q is %q, want %q", place, got, why)
			}
		}
	}
}
