package robots_test

import (
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/robots"
)

// TestGoogleParserCases: what Google publishes of its own parser's answers (google/robotstxt,
// robots_test.cc), which the most used parser and most webmasters go by: 142
// questions of the edition that RFC 9309 came from, and three that were added since.
// Three of them the RFC answers otherwise, see the package's documentation.
func TestGoogleParserCases(t *testing.T) {
	asked := 0
	ask := func(file, agent, path string, want bool) {
		asked++
		if got := robots.Parse([]byte(file)).Allowed(agent, path); got != want {
			t.Errorf("%s at %s: allowed %v\n%.200q", agent, path, got, file)
		}
	}
	for _, c := range []struct {
		file             string // its lines, apart by "; "
		agent            string
		allowed, refused string // paths, apart by spaces
	}{
		// The system test. An empty URL is the start page.
		{"", "FooBot", "/ /x/y", ""},
		{"", "", "/", ""},
		{"user-agent: FooBot; disallow: /", "", "/", ""},
		{"user-agent: FooBot; disallow: /", "FooBot", "", "/ /x/y"},
		// Lines: names and values; a colon that was forgotten.
		{"foo: FooBot; bar: /", "FooBot", "/x/y", ""},
		{"user-agent FooBot; disallow /", "FooBot", "", "/x/y"},
		// Groups: rules of one agent are one group, rules outside are none, other lines end none.
		{"allow: /foo/bar/; ; user-agent: FooBot; disallow: /; allow: /x/; user-agent: BarBot; disallow: /; allow: /y/; ; ; allow: /w/; user-agent: BazBot; ; user-agent: FooBot; allow: /z/; disallow: /", "FooBot", "/x/b /z/d", "/y/c /foo/bar/"},
		{"allow: /foo/bar/; ; user-agent: FooBot; disallow: /; allow: /x/; user-agent: BarBot; disallow: /; allow: /y/; ; ; allow: /w/; user-agent: BazBot; ; user-agent: FooBot; allow: /z/; disallow: /", "BarBot", "/y/c /w/a", "/z/d /foo/bar/"},
		{"allow: /foo/bar/; ; user-agent: FooBot; disallow: /; allow: /x/; user-agent: BarBot; disallow: /; allow: /y/; ; ; allow: /w/; user-agent: BazBot; ; user-agent: FooBot; allow: /z/; disallow: /", "BazBot", "/z/d", "/foo/bar/"},
		{"User-agent: BarBot; Sitemap: https://foo.bar/sitemap; User-agent: *; Disallow: /", "FooBot", "", "/"},
		{"User-agent: BarBot; Sitemap: https://foo.bar/sitemap; User-agent: *; Disallow: /", "BarBot", "", "/"},
		{"User-agent: FooBot; Invalid-Unknown-Line: unknown; User-agent: *; Disallow: /", "FooBot", "", "/"},
		{"User-agent: FooBot; Invalid-Unknown-Line: unknown; User-agent: *; Disallow: /", "BarBot", "", "/"},
		// Names of lines in any case.
		{"USER-AGENT: FooBot; ALLOW: /x/; DISALLOW: /", "FooBot", "/x/y", "/a/b"},
		{"user-agent: FooBot; allow: /x/; disallow: /", "FooBot", "/x/y", "/a/b"},
		{"uSeR-aGeNt: FooBot; AlLoW: /x/; dIsAlLoW: /", "FooBot", "/x/y", "/a/b"},
		// Names of agents in any case, up to the first space; nobody is called by two words.
		{"User-Agent: FOO BAR; Allow: /x/; Disallow: /", "Foo", "/x/y", "/a/b"},
		{"User-Agent: FOO BAR; Allow: /x/; Disallow: /", "foo", "/x/y", "/a/b"},
		{"User-Agent: foo bar; Allow: /x/; Disallow: /", "Foo", "/x/y", "/a/b"},
		{"User-Agent: foo bar; Allow: /x/; Disallow: /", "foo", "/x/y", "/a/b"},
		{"User-Agent: FoO bAr; Allow: /x/; Disallow: /", "Foo", "/x/y", "/a/b"},
		{"User-Agent: FoO bAr; Allow: /x/; Disallow: /", "foo", "/x/y", "/a/b"},
		{"User-Agent: *; Disallow: /; User-Agent: Foo Bar; Allow: /x/; Disallow: /", "Foo", "/x/y", ""},
		{"User-Agent: *; Disallow: /; User-Agent: Foo Bar; Allow: /x/; Disallow: /", "Foo Bar", "", "/x/y"},
		// The group of everybody else.
		{"user-agent: *; allow: /; user-agent: FooBot; disallow: /", "FooBot", "", "/x/y"},
		{"user-agent: *; allow: /; user-agent: FooBot; disallow: /", "BarBot", "/x/y", ""},
		{"user-agent: FooBot; allow: /; user-agent: BarBot; disallow: /; user-agent: BazBot; disallow: /", "QuxBot", "/x/y", ""},
		// Paths by case.
		{"user-agent: FooBot; disallow: /x/", "FooBot", "", "/x/y"},
		{"user-agent: FooBot; disallow: /X/", "FooBot", "/x/y", ""},
		// The longest match.
		{"user-agent: FooBot; disallow: /x/page.html; allow: /x/", "FooBot", "", "/x/page.html"},
		{"user-agent: FooBot; allow: /x/page.html; disallow: /x/", "FooBot", "/x/page.html", "/x/"},
		{"user-agent: FooBot; disallow: ; allow: ", "FooBot", "/x/page.html", ""},
		{"user-agent: FooBot; disallow: /; allow: /", "FooBot", "/x/page.html", ""},
		{"user-agent: FooBot; disallow: /x; allow: /x/", "FooBot", "/x/", "/x"},
		{"user-agent: FooBot; disallow: /x/page.html; allow: /x/page.html", "FooBot", "/x/page.html", ""},
		{"user-agent: FooBot; allow: /page; disallow: /*.html", "FooBot", "/page", "/page.html"},
		{"user-agent: FooBot; allow: /x/page.; disallow: /*.html", "FooBot", "/x/page.html", "/x/y.html"},
		{"User-agent: *; Disallow: /x/; User-agent: FooBot; Disallow: /y/", "FooBot", "/x/page", "/y/page"},
		// Encodings. What must be encoded, and is not, matches no such rule; what is encoded without need matches as it is.
		{"User-agent: FooBot; Disallow: /; Allow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par", "FooBot", "/foo/bar?qux=taz&baz=http://foo.bar?tar&par", ""},
		{"User-agent: FooBot; Disallow: /; Allow: /foo/bar/ツ", "FooBot", "/foo/bar/%E3%83%84", "/foo/bar/ツ"},
		{"User-agent: FooBot; Disallow: /; Allow: /foo/bar/%E3%83%84", "FooBot", "/foo/bar/%E3%83%84", "/foo/bar/ツ"},
		{"User-agent: FooBot; Disallow: /; Allow: /foo/bar/%62%61%7A", "FooBot", "/foo/bar/%62%61%7A", "/foo/bar/baz"},
		// Special characters.
		{"User-agent: FooBot; Disallow: /foo/bar/quz; Allow: /foo/*/qux", "FooBot", "/foo/quz /foo//quz /foo/bax/quz", "/foo/bar/quz"},
		{"User-agent: FooBot; Disallow: /foo/bar$; Allow: /foo/bar/qux", "FooBot", "/foo/bar/qux /foo/bar/ /foo/bar/baz", "/foo/bar"},
		{"User-agent: FooBot; # Disallow: /; Disallow: /foo/quz#qux; Allow: /", "FooBot", "/foo/bar", "/foo/quz"},
		// index.html is its directory.
		{"User-Agent: *; Allow: /allowed-slash/index.html; Disallow: /", "foobot", "/allowed-slash/ /allowed-slash/index.html", "/allowed-slash/index.htm /anyother-url"},
		// The examples of the documentation.
		{"user-agent: FooBot; disallow: /; allow: /fish", "FooBot", "/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html /fish.html?id=anything", "/bar /Fish.asp /catfish /?id=fish"},
		{"user-agent: FooBot; disallow: /; allow: /fish*", "FooBot", "/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html /fish.html?id=anything", "/bar /Fish.bar /catfish /?id=fish"},
		{"user-agent: FooBot; disallow: /; allow: /fish/", "FooBot", "/fish/ /fish/salmon /fish/?salmon /fish/salmon.html /fish/?id=anything", "/bar /fish /fish.html /Fish/Salmon.html"},
		{"user-agent: FooBot; disallow: /; allow: /*.php", "FooBot", "/filename.php /folder/filename.php /folder/filename.php?parameters //folder/any.php.file.html /filename.php/ /index?f=filename.php/", "/bar /php/ /index?php /windows.PHP"},
		{"user-agent: FooBot; disallow: /; allow: /*.php$", "FooBot", "/filename.php /folder/filename.php", "/bar /filename.php?parameters /filename.php/ /filename.php5 /php/ /filename?php /aaaphpaaa //windows.PHP"},
		{"user-agent: FooBot; disallow: /; allow: /fish*.php", "FooBot", "/fish.php /fishheads/catfish.php?parameters", "/bar /Fish.PHP"},
		{"user-agent: FooBot; allow: /p; disallow: /", "FooBot", "/page", ""},
		{"user-agent: FooBot; allow: /folder; disallow: /folder", "FooBot", "/folder/page", ""},
		{"user-agent: FooBot; allow: /page; disallow: /*.htm", "FooBot", "", "/page.htm"},
		{"user-agent: FooBot; allow: /$; disallow: /", "FooBot", "/", "/page.html"},
	} {
		file := strings.ReplaceAll(c.file, "; ", "\n") + "\n"
		for _, p := range strings.Fields(c.allowed) {
			ask(file, c.agent, p, true)
		}
		for _, p := range strings.Fields(c.refused) {
			ask(file, c.agent, p, false)
		}
	}

	// Lines are read up to 8*2083 bytes, the end among them.
	long := func(name, letter string) string {
		return "/x/" + strings.Repeat(letter, 8*2083+1-len(name)-len("/x/"))
	}
	a, b := long("allow: ", "a"), long("allow: ", "b")
	d := long("disallow: ", "a")
	file := "user-agent: FooBot\ndisallow: " + d + "/qux\n"
	ask(file, "FooBot", "/fux", true)
	ask(file, "FooBot", d+"/fux", false)
	file = "user-agent: FooBot\ndisallow: /\nallow: " + a + "/qux\nallow: " + b + "/qux\n"
	ask(file, "FooBot", "/", false)
	ask(file, "FooBot", a+"/qux", true)
	ask(file, "FooBot", b+"/fux", true)

	if asked != 145 {
		t.Errorf("%d questions asked", asked)
	}
}
