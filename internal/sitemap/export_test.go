package sitemap

import "time"

// Lastmod returns the date that a sitemap has for a page.
func Lastmod(modified time.Time, span time.Duration) string {
	return string(appendDate(nil, modified, span))
}
