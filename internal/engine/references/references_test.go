package references_test

import (
	"fmt"
	"hash/crc32"
	"maps"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/references"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

const page = "https://www.example.org/docs/page.html"

// counted returns the counts of a page with links, and media that are embedded.
func counted(t testing.TB, c *references.Counter, page string, links, media []string) *references.Counts {
	t.Helper()
	c.Reset(page)
	for _, l := range links {
		c.Add([]byte(l), true)
	}
	for _, m := range media {
		c.Embed([]byte(m))
		if !slices.Contains(links, m) {
			c.Add([]byte(m), false)
		}
	}
	got, ok := references.Parse(c.Encode())
	if b := c.Encode(); b == nil {
		return &references.Counts{}
	} else if !ok {
		t.Fatalf("%q and %q are encoded as %x, which cannot be read", links, media, b)
	}
	return got
}

// named returns counts as "gz:2 pdf:1".
func named(counts []references.Count) string {
	var list []string
	for _, c := range counts {
		list = append(list, fmt.Sprintf("%s:%d", c.Name, c.N))
	}
	return strings.Join(list, " ")
}

func TestKinds(t *testing.T) {
	var c references.Counter
	for link, want := range map[string]string{
		"/a.pdf":               "pdf:1",
		"/a.PDF":               "pdf:1",
		"/a.tar.gz":            "gz:1",
		"/a.png?v=3":           "png:1",
		"/a?b.png":             "",
		"/a.b/c":               "",
		"/a.b/c?/d.png":        "",
		"/":                    "",
		"/a.":                  "",
		"/.rss":                "rss:1",
		"/a.mp3":               "mp3:1",
		"/a.7z":                "7z:1",
		"/release-1.2":         "",
		"/git.1":               "",
		"/a.12345678":          "",
		"/a.1234567x":          "1234567x:1",
		"/a.docbooks":          "docbooks:1",
		"/a.docbookss":         "",
		"/a.c%2B%2B":           "",
		"/a.c++":               "",
		"/a.\u00e9":            "",
		"/a.pdf;x":             "",
		"/a.html":              "",
		"/a.HTML":              "",
		"/.html":               "",
		"/html":                "",
		"/a.xhtml":             "",
		"/a.php":               "",
		"/a.php?b=c.png":       "",
		"/setup.exe":           "exe:1",
		"/cgi-bin/query.exe?x": "",
		"/a.py":                "py:1",
		"/a.py?":               "",
	} {
		if got := named(counted(t, &c, page, []string{"https://www.example.org" + link}, nil).Kinds); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	var c references.Counter
	for link, want := range map[string]string{
		"https://www.example.org/":                              "",
		"http://www.example.org/":                               "",
		"https://example.org/":                                  "",
		"https://www.example.org:8443/":                         "",
		"https://www.example.organic/":                          "www.example.organic:1",
		"https://sub.example.org/":                              "sub.example.org:1",
		"https://www.www.example.org/":                          "www.www.example.org:1",
		"http://example.net:8080/x?y=z":                         "example.net:1",
		"http://192.0.2.1:81/":                                  "192.0.2.1:1",
		"http://[2001:db8::1]/":                                 "[2001:db8::1]:1",
		"http://[2001:db8::1]:81/":                              "[2001:db8::1]:1",
		"https://xn--mller-kva.example/http://www.example.org/": "xn--mller-kva.example:1",
	} {
		if got := named(counted(t, &c, page, []string{link}, nil).Hosts); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
	if got := counted(t, &c, page, nil, []string{"https://cdn.example/a.png"}); len(got.Hosts) != 0 || named(got.Kinds) != "png:1" || len(got.Media) != 1 {
		t.Errorf("an image of another host is counted as %+v", got)
	}
	if got := counted(t, &c, "https://[2001:db8::1]:81/", []string{"https://[2001:db8::1]:82/", "http://www.example.org/"}, nil); named(got.Hosts) != "www.example.org:1" {
		t.Errorf("%+v", got)
	}
}

// A page with more of everything than is counted has the first of each, and a Counter forgets them with the next page.
func TestBounds(t *testing.T) {
	var links, media []string
	for i := range 10_000 {
		links = append(links, fmt.Sprintf("https://%d.example/a.x%d", i, i/2))
		media = append(media, fmt.Sprintf("https://www.example.org/%d.x%d", i, i%2))
	}
	var c references.Counter
	got := counted(t, &c, page, links, media)
	if len(got.Kinds) != 256 || len(got.Hosts) != 64 || len(got.Media) != 256 {
		t.Fatalf("%d kinds, %d hosts, %d media", len(got.Kinds), len(got.Hosts), len(got.Media))
	}
	if k := got.Kinds[:3]; named(k) != "x0:5002 x1:5002 x10:2" {
		t.Errorf("kinds %s", named(k))
	}
	want := map[uint32]bool{}
	for _, m := range media[:256] {
		want[crc32.Checksum([]byte(m), crc32.MakeTable(crc32.Castagnoli))] = true
	}
	if !slices.Equal(got.Media, slices.Sorted(maps.Keys(want))) {
		t.Errorf("media %d", got.Media)
	}
	if n := len(c.Encode()); n > 4096 {
		t.Errorf("%d bytes", n)
	}
	long := "https://" + strings.Repeat("a", 300) + ".example/"
	if got := counted(t, &c, page, []string{long, "https://a.example/b.pdf"}, nil); named(got.Hosts)+" "+named(got.Kinds) != "a.example:1 pdf:1" || got.Media != nil {
		t.Errorf("after the large page: %+v", got)
	}
	if c.Reset(page); c.Encode() != nil {
		t.Error("a page that refers to nothing has counts")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, b := range []string{
		"",
		"\x00",
		"\x01\x03pdf\x01",                     // no hosts
		"\x01\x00\x01\x00",                    // no name
		"\x01\x03pdf\x00\x00",                 // none of them
		"\x02\x03pdf\x01\x02gz\x01\x00",       // not sorted
		"\x02\x03pdf\x01\x03pdf\x01\x00",      // twice
		"\x01\x09pdfpdfpdf\x01\x00",           // too long
		"\xff\xff\xff\xff\x0f\x03pdf\x01\x00", // too many
		"\x00\x00\x00",                        // no whole medium
		"\x00\x00\x00\x00\x00\x02\x00\x00\x00\x01",
		"\x00\x00" + strings.Repeat("\x00", 4*257),
		"\x01\x03pdf\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",
	} {
		if c, ok := references.Parse([]byte(b)); ok {
			t.Errorf("%q is %+v", b, c)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\x01\x03pdf\x02\x01\x0bexample.org\x01\x00\x00\x00\x01\x00\x00\x00\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok := references.Parse(b)
		if !ok {
			return
		}
		for _, list := range [][]references.Count{c.Kinds, c.Hosts} {
			for i, k := range list {
				if k.Name == "" || len(k.Name) > 253 || k.N < 1 || i > 0 && list[i-1].Name >= k.Name {
					t.Errorf("%+v", list)
				}
			}
		}
		if len(c.Kinds) > 256 || len(c.Hosts) > 64 || len(c.Media) > 256 || !slices.IsSorted(c.Media) {
			t.Errorf("%+v", c)
		}
	})
}

// What is counted of any URLs is what a plain count by net/url finds.
func FuzzCounts(f *testing.F) {
	f.Add(page, "https://a.example/b.tar.gz?c.d\nhttp://example.org/\nhttps://www.example.org/x.exe?y\nhttp://[::1]:80/.x", "https://a.example/b.tar.gz?c.d\nhttp://h/i.png")
	extension := regexp.MustCompile(`^\.[a-z0-9]{0,7}[a-z][a-z0-9]{0,7}$`)
	pages := regexp.MustCompile(`^\.(html?|xht|xhtml?|xhtm|shtml?|htmls|php[3457]?|phtml|asp|aspx|ashx|jsp|jspx|jspa|jhtml|do|cfml?|action|lasso|nsf|fcgi|pcgi)$`)
	programs := regexp.MustCompile(`^\.(cgi|pl|py|rb|exe|dll)$`)
	f.Fuzz(func(t *testing.T, page, links, media string) {
		page, err := protocol.CanonicalURL("", page)
		if err != nil || strings.Contains(page+links+media, "[fe80::") { // a zone is escaped in one of the two
			return
		}
		host := func(s string) string {
			u := must.Get(url.Parse(s))
			h := u.Hostname()
			if strings.Contains(h, ":") {
				h = "[" + h + "]"
			}
			return h
		}
		canonical := func(lines string) (list []string) {
			for l := range strings.Lines(lines) {
				if l, err := protocol.CanonicalURL(page, l); err == nil && !slices.Contains(list, l) {
					list = append(list, l)
				}
			}
			return list
		}
		kinds, hosts, hashes := map[string]int{}, map[string]int{}, map[uint32]bool{}
		all, embedded := canonical(links), canonical(media)
		for _, l := range all {
			if h := host(l); strings.TrimPrefix(h, "www.") != strings.TrimPrefix(host(page), "www.") && len(h) <= 253 {
				hosts[h]++
			}
		}
		for _, m := range embedded {
			hashes[crc32.Checksum([]byte(m), crc32.MakeTable(crc32.Castagnoli))] = true
		}
		for _, l := range canonical(links + "\n" + media) {
			before, _, query := strings.Cut(l, "?")
			ext := strings.ToLower(path.Ext(before[strings.LastIndexByte(before, '/'):]))
			if extension.MatchString(ext) && len(ext) <= 9 && !pages.MatchString(ext) && !(query && programs.MatchString(ext)) {
				kinds[ext[1:]]++
			}
		}
		if len(kinds) > 256 || len(hosts) > 64 || len(hashes) > 256 {
			return
		}
		list := func(m map[string]int) (list []references.Count) {
			for _, name := range slices.Sorted(maps.Keys(m)) {
				list = append(list, references.Count{Name: name, N: m[name]})
			}
			return list
		}
		want := &references.Counts{Kinds: list(kinds), Hosts: list(hosts), Media: slices.Sorted(maps.Keys(hashes))}
		if got := counted(t, new(references.Counter), page, all, embedded); !reflect.DeepEqual(got, want) {
			t.Errorf("page %s, links %q, media %q:\n got %+v\nwant %+v", page, all, embedded, got, want)
		}
	})
}
