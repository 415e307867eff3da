package public_test

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
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
		p := must.Get(public.ParsePatterns(c.patterns))
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

// Names are judged alike whether patterns are set or not, as long as none of them matches: most names take a shorter way without.
func TestUnmatchedPatternsChangeNothing(t *testing.T) {
	none := must.Get(public.ParseNames(nil, nil))
	other := must.Get(public.ParseNames([]string{"nowhere/*.css"}, []string{"nowhere/**"}))
	left := map[string]int{}
	words := []string{"", "page", "core", "4913", "Copy of a", "a copy", "a copy 2", "a (copy)", "a.bak", "a~", "#a#", ".a", "dump.sql", "core.12", "a-b_C", "ä", "a.b", "index", "robots", "a.tmp2", "a.orig"}
	for _, word := range words {
		for _, ext := range []string{"", ".html", ".htm", ".HTML", ".xhtml", ".html.en", ".html.gz", ".rdf", ".html~", ".bak", ".sql", ".txt"} {
			if name := word + ext; name != "" {
				why := none.File("", "dir/"+name, name)
				if got := other.File("", "dir/"+name, name); got != why {
					t.Errorf("%s: %q, and with patterns %q", name, why, got)
				}
				left[why]++
			}
		}
	}
	if left[""] < 20 || len(left) < 4 {
		t.Errorf("why names are left out, and how many: %v", left)
	}
}
