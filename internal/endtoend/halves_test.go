package endtoend

import (
	"testing"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/client/crawl/harvest"
	"github.com/parleyweb/parley/server"
)

// TestHalvesAgree is the table of what both halves have a limit, a default or a list of: what a site publishes by
// its defaults, a crawler takes by its own.
func TestHalvesAgree(t *testing.T) {
	const longest = 5_972_086 // bytes of the longest page of openjdk-17-doc, java/lang/class-use/String.html
	for _, row := range []struct {
		what          string
		site, crawler int64
		same          bool // else the crawler's is to be as much at least
	}{
		{"bytes of a page: --max-file of rdfgen and notifier, --max-page of crawler follow", server.MaxFile, crawl.DefaultMaxPage, true},
		{"bytes of a page of documentation, --max-file of crawler crawl and run", longest, harvest.DefaultMaxBytes, false},
	} {
		if row.same && row.site != row.crawler || row.site > row.crawler {
			t.Errorf("%s: %d at the site, %d in the crawler", row.what, row.site, row.crawler)
		}
	}
}
