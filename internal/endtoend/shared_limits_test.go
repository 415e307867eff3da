package endtoend

import (
	"testing"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/feed"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/internal/sitemap"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/archive"
	"github.com/parleyweb/parley/server/doors"
)

// TestSiteAndCrawlerLimitsAgree compares the limits, defaults and lists of both halves: whatever a site publishes by
// default, a crawler accepts by default.
func TestSiteAndCrawlerLimitsAgree(t *testing.T) {
	const longest = 5_972_086 // bytes of the longest page of openjdk-17-doc, java/lang/class-use/String.html
	for _, row := range []struct {
		what          string
		site, crawler int64
		same          bool // else the crawler's limit must be at least as high
	}{
		{"bytes of a page: --max-file of rdfgen and notifier, --max-page of crawler follow", server.MaxFile, crawl.DefaultCopy().MaxPage, true},
		{"bytes of a page of documentation, --max-file of crawler crawl and run", longest, harvest.DefaultMaxBytes, false},
		{"bytes of a manifest, as the site reads its own and as crawler follow reads it", server.MaxManifest, client.DefaultMaxManifest, true},
		{"bytes of the site's archive, and --max-archive of crawler follow --as site", archive.DefaultMaxBytes, client.DefaultMaxArchive, true},
		{"bytes of the pages of a bundle, and of the whole bundle with their metadata", 2 * doors.MaxBundle, client.MaxBundle, true},
		{"bytes of a sitemap", sitemap.MaxBytes, crawl.SourceBytes(collection.SitemapXML), false},
		{"bytes of a sitemap, as written and as parsed", sitemap.MaxBytes, seed.MaxSitemap, false},
		{"bytes of a feed", feed.MaxBytes, crawl.SourceBytes(collection.NewsFeed), true},
		{"bytes of a feed, as written and as parsed", feed.MaxBytes, seed.MaxFeed, true},
		{"bytes of robots.txt", robots.MaxBytes, crawl.SourceBytes(collection.Robots), true},
	} {
		if row.same && row.site != row.crawler || row.site > row.crawler {
			t.Errorf("%s: %d at the site, %d in the crawler", row.what, row.site, row.crawler)
		}
	}
}
