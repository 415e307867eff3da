package docroot

import (
	"crypto/sha256"
	"fmt"

	"github.com/parleyweb/parley/server/inventory"
)

const (
	featuresSize = 2 << 20 // how much of a page is asked for its features, in bytes
)

// hasFeatures reports whether files of a media type are asked for features.
func hasFeatures(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// versioned returns the stamp of a file of a media type, which tells by which
// FeaturesVersion the file was asked for its features, if it is. A stamp of
// nothing stays one.
func (s *Site) versioned(stamp []byte, mediaType string) []byte {
	if len(stamp) == 0 || !hasFeatures(mediaType) {
		return stamp
	}
	return append(stamp, s.version...)
}

// prepareVersion makes of FeaturesVersion what becomes part of stamps: nothing
// where there is none.
func (s *Site) prepareVersion() {
	if s.Settings.Features != nil && s.Settings.FeaturesVersion != "" {
		sum := sha256.Sum256([]byte(s.Settings.FeaturesVersion))
		s.version = sum[:4]
	}
}

// features asks the beginning of a page, whose URL, Type and Stamp are in o,
// what it says of itself. An error leaves it open whether it may be published.
func (s *Site) features(o *inventory.Offer, head []byte) error {
	var f inventory.Features
	if s.Settings.Features != nil && hasFeatures(o.Type) {
		var err error
		if f, err = s.Settings.Features(o.URL, head, int64(len(head)) == o.Length); err != nil {
			return fmt.Errorf("features: %w", err)
		}
	}
	f.Clean(o.URL)
	o.Title, o.Language, o.Canonical, o.Text, o.Sketch = f.Title, f.Language, f.Canonical, f.Text, f.Sketch
	if !f.NoIndex && !f.UnavailableAfter.IsZero() {
		o.Stamp, o.Young = nil, nil // it is read at each look, until its time has come
	}
	if f.NoIndex {
		o.LeftOut = leftNoIndex
		s.noIndex.remember(o.URL, o.Stamp)
	} else {
		s.noIndex.forget(o.URL)
	}
	return nil
}
