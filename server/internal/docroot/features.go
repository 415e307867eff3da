package docroot

import (
	"crypto/sha256"
	"fmt"

	"github.com/parleyweb/parley/server/internal/public"
	"github.com/parleyweb/parley/server/inventory"
)

const (
	featuresSize = 2 << 20 // how many bytes of a page are searched for features
)

// hasFeatures reports whether files of a media type are searched for features.
func hasFeatures(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// versioned appends FeaturesVersion to the stamp of a file, if files of its media type are searched for
// features. An empty stamp stays empty.
func (s *Site) versioned(stamp []byte, mediaType string) []byte {
	if len(stamp) == 0 || !hasFeatures(mediaType) {
		return stamp
	}
	return append(stamp, s.version...)
}

// prepareVersion hashes FeaturesVersion for use in stamps: nothing without a version.
func (s *Site) prepareVersion() {
	if s.Settings.Features != nil && s.Settings.FeaturesVersion != "" {
		sum := sha256.Sum256([]byte(s.Settings.FeaturesVersion))
		s.version = sum[:4]
	}
}

// features extracts the features of a page, whose URL, Type and Stamp are in o, from its beginning. After an
// error it is unknown whether the page may be published.
func (s *Site) features(o *inventory.Offer, head []byte) error {
	var f inventory.Features
	if s.Settings.Features != nil && hasFeatures(o.Type) {
		var err error
		if f, err = s.Settings.Features(o.URL, head, int64(len(head)) == o.Length); err != nil {
			return fmt.Errorf("features: %w", err)
		}
	}
	if f.Language == "" {
		_, f.Language = public.Language(o.Place)
	}
	f.Clean(o.URL)
	o.Title, o.Language, o.Canonical, o.Text, o.Sketch = f.Title, f.Language, f.Canonical, f.Text, f.Sketch
	if !f.NoIndex && !f.UnavailableAfter.IsZero() {
		o.Stamp, o.Young = nil, nil // read at each scan, until that time
	}
	if f.NoIndex {
		o.LeftOut = leftNoIndex
		s.noIndex.remember(o.URL, o.Stamp)
	} else {
		s.noIndex.forget(o.URL)
	}
	return nil
}
