package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
)

// The web server has no log yet when the notifier starts; later crawlers come, and the page says what to do first, unless it has been done.
func TestCrawlerCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "access.log")
		var said strings.Builder
		for _, c := range []*crawlerCosts{{}, {sitemap: true}} {
			must.OK(t, os.WriteFile(path, nil, 0o600))
			c.logs, c.log = []string{path}, slog.New(slog.NewTextHandler(&said, nil))
			go c.run(t.Context())
			time.Sleep(15 * time.Minute)
			if w := c.now(); w.Error == "" || strings.Count(said.String(), "could not be read") != 1 {
				t.Errorf("without a log: %+v, and the notifier said %s", w, said.String())
			}
			must.Write(t, path, accessLog(400))
			time.Sleep(10 * time.Minute)
			if w := c.now(); w.Error != "" || w.Total.Requests != 400 || strings.Contains(w.First, "Publish a sitemap") == c.sitemap {
				t.Errorf("ten minutes later: %+v", w)
			}
			said.Reset()
		}
	})
}
