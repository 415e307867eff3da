package check_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// Documents from the wild: none of them makes the check crash, hang or use much memory, and each is
// recognised as its kind.
func TestRecordedDocumentsAreRecognized(t *testing.T) {
	for _, c := range []struct {
		archive string
		kind    func(name string) string // the kind that most should be
		least   float64                  // required share of these
	}{
		{"robots-top1m-2017", func(string) string { return "robots.txt" }, 0.85},
		{"feeds-gofeed", func(name string) string {
			if strings.HasSuffix(name, ".json") {
				return ""
			}
			return "feed"
		}, 0.95},
		{"feeds-w3c-feedvalidator", func(string) string { return "" }, 0},
		{"sitemaps-robots-urls-crawler-commons", func(string) string { return "" }, 0},
		{"resourcesync-resync", func(string) string { return "" }, 0},
		{"rdfxml-w3c-rdf11", func(string) string { return "" }, 0},
	} {
		file := filepath.Join(t.TempDir(), "doc")
		kinds, rules, n, right, asked := map[string]int{}, map[string]int{}, 0, 0, 0
		var slowest time.Duration
		for name, body := range machine.Recorded(t, c.archive) {
			if few := len(body) < 100_000; few && (testing.Short() && n%20 != 0 || n%8 != 0 && n > 1000) {
				n++
				continue
			}
			n++
			must.OK(t, os.WriteFile(file, body, 0o600))
			begin := time.Now()
			r, err := new(check.Checker).File(t.Context(), file, false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			slowest = max(slowest, time.Since(begin))
			kind, _, _ := strings.Cut(r.Kind, ",")
			kinds[kind]++
			if want := c.kind(name); want != "" {
				if asked++; want == kind || kind == "RSS 1.0" {
					right++
				}
			}
			for _, f := range r.Findings {
				rules[f.Rule]++
				if f.Count < 1 || f.Of > 0 && f.Count > f.Of || f.Message == "" || strings.Contains(f.Message, "{n}") {
					t.Errorf("%s: %+v", name, f)
				}
			}
			if len(r.Findings) > 30 {
				t.Errorf("%s: %d findings", name, len(r.Findings))
			}
		}
		t.Logf("%s: %d documents, slowest %v\n%v\n%v", c.archive, n, slowest, kinds, rules)
		if slowest > 5*time.Second {
			t.Errorf("%s: a document took %v", c.archive, slowest)
		}
		if !testing.Short() && float64(right) < c.least*float64(asked) { // a small sample may have more odd ones
			t.Errorf("%s: %d of %d documents have the expected kind", c.archive, right, asked)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapSys > 512<<20 {
		t.Errorf("the heap has grown to %d MB", m.HeapSys>>20)
	}
}

// The W3C's feed validator states the expected findings in each of its own test cases, and so is an
// independent reference for well-formedness, dates and ids.
func TestAgreesWithFeedValidator(t *testing.T) {
	expect := regexp.MustCompile(`Expect: *(!?)([A-Za-z0-9]+)({.*element:id\b)?`)
	file := filepath.Join(t.TempDir(), "doc")
	type count struct{ cases, missed int }
	var dates, syntax, ids, good count
	for name, body := range machine.Recorded(t, "feeds-w3c-feedvalidator") {
		m := expect.FindSubmatch(body)
		if m == nil || !regexp.MustCompile(`testcases/(atom|rss|rss20)/`).MatchString(name) {
			continue
		}
		must.OK(t, os.WriteFile(file, body, 0o600))
		r := must.Get(new(check.Checker).File(t.Context(), file, false))
		found := map[string]bool{}
		for _, f := range r.Findings {
			found[f.Rule] = true
		}
		add := func(c *count, right bool) {
			c.cases++
			if !right {
				c.missed++
				t.Logf("%s: %s%s, found %v", name, m[1], m[2], found)
			}
		}
		broken := found["malformed"] || found["cut-short"]
		switch says := string(m[2]); {
		case len(m[1]) > 0 || strings.HasPrefix(says, "Valid"):
			add(&good, !broken && !found["bad-date"] && (!found["no-atom-id"] || !strings.Contains(name, "/atom/4.1."))) // of which all are whole feeds
		case says == "SAXError":
			add(&syntax, broken)
		case says == "InvalidRFC3339Date", says == "InvalidRFC2822Date", says == "InvalidW3CDTFDate":
			add(&dates, found["bad-date"] || broken)
		case (says == "MissingElement" || says == "NotBlank") && len(m[3]) > 0:
			add(&ids, found["no-atom-id"])
		}
	}
	t.Logf("dates %+v, syntax %+v, ids %+v, nothing wrong %+v", dates, syntax, ids, good)
	// The missed ones are dates without a time or with a wrong weekday, which readers understand, and dates
	// in elements that no crawler reads.
	if dates.cases < 80 || dates.missed > 12 || syntax.cases < 8 || syntax.missed > 1 || ids.cases < 4 || ids.missed > 0 || good.cases < 500 || good.missed > 4 {
		t.Error("more disagreements with the feed validator than before")
	}
}
