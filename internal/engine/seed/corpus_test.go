package seed_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// recorded calls f with the files of a recorded corpus whose names contain part.
func recorded(t *testing.T, corpus, part string, f func(name string, b []byte)) {
	t.Helper()
	for name, b := range machine.Recorded(t, corpus) {
		if strings.Contains(name, part) {
			f(name, b)
		}
	}
}

// A difference is a reason why a corpus and this package normalize a URL differently.
type difference struct {
	why string
	is  func(ref, base, ours, theirs string) bool
}

func refused(re string) func(ref, base, ours, theirs string) bool {
	r := regexp.MustCompile(re)
	return func(ref, base, ours, _ string) bool { return ours == "" && r.MatchString(ref) }
}

func equal(form func(string) string) func(ref, base, ours, theirs string) bool {
	return func(_, _, ours, theirs string) bool { return ours != "" && form(ours) == form(theirs) }
}

var escape = regexp.MustCompile(`(?i)%[0-9a-f]{2}`)

// plain removes the escapes of a URL, and any that then remain.
func plain(s string) string {
	for range 2 {
		s = escape.ReplaceAllStringFunc(s, func(e string) string {
			n, _ := strconv.ParseUint(e[1:], 16, 8)
			return string([]byte{byte(n)})
		})
	}
	return s
}

// sorted returns a URL with its parameters in order, without empty ones.
func sorted(s string) string {
	path, query, _ := strings.Cut(s, "?")
	var l []string
	for p := range strings.SplitSeq(query, "&") {
		if p = strings.TrimSuffix(p, "="); p != "" && p[0] != '=' {
			l = append(l, p)
		}
	}
	slices.Sort(l)
	return strings.Join(append(l, path), "&")
}

// differences are all reasons for which this package names a URL differently than others;
// the first that fits counts.
var differences = []difference{
	// URLs that a crawler does not fetch.
	{"other schemes are not fetched", func(ref, base, ours, theirs string) bool {
		return ours == "" && theirs != "" && !strings.HasPrefix(theirs, "http:") && !strings.HasPrefix(theirs, "https:")
	}},
	{"URLs with a user name or password are rejected", func(ref, base, ours, theirs string) bool {
		return ours == "" && (strings.Contains(ref, "@") || strings.Contains(base, "@"))
	}},
	{"an empty reference is rejected", refused(`^[ \t]*$`)},
	{"a relative reference without a base is rejected", func(ref, base, ours, theirs string) bool {
		return ours == "" && base == "" && !strings.Contains(ref, ":")
	}},

	// Browsers repair these, and page readers do so before (html.Scanner); elsewhere they are never intended.
	{"control characters are an error", refused(`[\x00-\x1f\x7f]`)},
	{"a backslash is not read as a slash", func(ref, base, ours, theirs string) bool { return strings.Contains(ref, `\`) }},
	{"http: without its slashes is an error", refused(`^(?i)https?:(/?[^/]|/?$|///)`)},
	{"a name that begins with a colon needs a ./", refused(`^\s*(:|\[)`)},
	{"an empty host is not skipped", func(ref, base, ours, theirs string) bool { return strings.HasPrefix(ref, "///") }},

	// Hosts.
	{"a host with non-ASCII characters is rejected", func(ref, base, ours, theirs string) bool {
		host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(ref), "http://"), "https://"), "/")
		return ours == "" && strings.IndexFunc(plain(host), func(r rune) bool { return r >= 0x80 }) >= 0
	}},
	{"escapes in a host are rejected", refused(`^https?://[^/]*%`)},
	{"odd characters in a host", refused(`^http://!"`)},
	{"numbers are not converted to addresses: the resolver decides", func(ref, base, ours, theirs string) bool {
		return regexp.MustCompile(`^https?://([^/]*\.)?(0x[0-9a-f]*|[0-9]+)\.?/`).MatchString(ours)
	}},
	{"an address in brackets is unchanged", func(ref, base, ours, theirs string) bool { return strings.Contains(ours, "//[") }},
	{"a port is unchanged, even if it is too large", func(ref, base, ours, theirs string) bool {
		return regexp.MustCompile(`//[^/]*:(0+[0-9]*|[0-9]{6,})/`).MatchString(ours)
	}},

	// Paths and queries: URLs that may be two pages get two names.
	{"an escaped dot is not a dot segment", func(ref, base, ours, theirs string) bool { return strings.Contains(strings.ToLower(ours), "%2e") }},
	{"escapes are unchanged", equal(plain)},
	{"// in a path is kept", equal(func(s string) string {
		return regexp.MustCompile(`([^:])/+`).ReplaceAllString(s, "$1/")
	})},
	{"an empty query is kept", func(ref, base, ours, theirs string) bool { return strings.TrimSuffix(ours, "?") == theirs }},
	{"parameters keep their order, also empty ones", equal(sorted)},
}

// TestURLsOfCrawlerCommons compares names with the tables of crawler-commons, some of
// which come from the Web Platform Tests. Every difference must have a reason.
func TestURLsOfCrawlerCommons(t *testing.T) {
	s := &seed.Seeder{Rules: seed.Rules{SplitWWW: true, RejectWords: []string{}}}
	asked, differ := 0, map[string]int{}
	ask := func(table, ref, base, theirs string) {
		theirs, _, _ = strings.Cut(theirs, "#")
		asked++
		ours := s.Admit(seed.Ref{URL: ref, From: base}).URL
		if ours == theirs {
			return
		}
		for _, d := range differences {
			if d.is(ref, base, ours, theirs) {
				differ[d.why]++
				return
			}
		}
		t.Errorf("%s: %q at %q is %q, want %q", table, ref, base, ours, theirs)
	}
	recorded(t, "sitemaps-robots-urls-crawler-commons", "/resources/", func(name string, b []byte) {
		switch base := filepath.Base(name); {
		case strings.HasSuffix(base, ".csv"):
			r := csv.NewReader(bytes.NewReader(b))
			r.Comment, r.FieldsPerRecord, r.LazyQuotes, r.TrimLeadingSpace = '#', -1, true, true
			rows := must.Get(r.ReadAll())
			for _, row := range rows {
				switch {
				case len(row) == 1:
					ask(base, row[0], "", "")
				case len(row) == 2:
					ask(base, row[0], "", row[1])
				default:
					ask(base, row[0], row[1], row[2])
				}
			}
		case base == "wpt-urltestdata.json":
			var rows []any
			must.OK(t, json.Unmarshal(b, &rows))
			for _, r := range rows {
				row, ok := r.(map[string]any)
				if !ok {
					continue // a comment
				}
				input, _ := row["input"].(string)
				from, _ := row["base"].(string)
				href, _ := row["href"].(string)
				if !strings.HasPrefix(href, "http") {
					href = "" // an error, or not for crawlers
				}
				ask(base, input, from, href)
			}
		}
	})
	all := 0
	for _, d := range differences {
		if differ[d.why] == 0 {
			t.Errorf("no URL differs since %s", d.why)
		}
		all += differ[d.why]
		t.Logf("%4d: %s", differ[d.why], d.why)
	}
	t.Logf("%d of %d URLs are normalized as in the corpus", asked-all, asked)
	if asked < 1000 || all > asked/4 {
		t.Errorf("%d URLs, %d differ: that is not the corpus, or not its language", asked, all)
	}
}

// TestRecordedFiles reads sitemaps and feeds recorded by others with the
// engine's reader.
func TestRecordedFiles(t *testing.T) {
	files, named := 0, 0
	recorded(t, "sitemaps-robots-urls-crawler-commons", "/sitemaps/", func(name string, b []byte) {
		l, err := seed.ReadSitemap("https://www.example.com/"+filepath.Base(name), b)
		files++
		named += len(l.Pages) + len(l.Sitemaps)
		switch base := filepath.Base(name); {
		case base == "atom.xml":
			if !errors.Is(err, seed.ErrNone) {
				t.Errorf("%s: %v", name, err)
			}
			if l, err = seed.ReadFeed("https://www.example.com/", b); err != nil || len(l.Pages) == 0 {
				t.Errorf("%s: %d entries, %v", name, len(l.Pages), err)
			}
		case base == "sitemap.index.xml":
			if err != nil || l.Kind != "sitemap index" || len(l.Sitemaps) != 0 || l.Skipped != 15 { // its URLs are in the wrong place
				t.Errorf("%s: %+v, %v", name, l, err)
			}
		case err != nil || len(l.Pages) == 0:
			t.Errorf("%s: %d pages, %v", name, len(l.Pages), err)
		}
	})
	t.Logf("sitemaps: %d files, %d URLs", files, named)
	if files != 18 {
		t.Errorf("%d sitemaps", files)
	}
	for corpus, least := range map[string]int{"feeds-gofeed": 500, "feeds-w3c-feedvalidator": 1500} {
		files, feeds, named := 0, 0, 0
		recorded(t, corpus, "", func(name string, b []byte) {
			files++
			if l, err := seed.ReadFeed("https://www.example.com/feed", b); err == nil {
				feeds++
				named += len(l.Pages)
			}
		})
		t.Logf("%s: %d files, %d feeds, %d URLs", corpus, files, feeds, named)
		if feeds < least {
			t.Errorf("%s: %d of %d files are feeds", corpus, feeds, files)
		}
	}
}
