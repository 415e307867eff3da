package compare

import (
	"bytes"

	"github.com/parleyweb/parley/internal/journal"
)

// AnnounceMark begins the stamp of what was announced, which goes on with the
// date that was said, in milliseconds, and a hash of all of it. Stamps of a
// docroot begin with a device number.
const AnnounceMark = "\x00announced\x00"

// IsAnnounced reports whether a page is there because it was announced.
func IsAnnounced(e journal.Entry) bool { return bytes.HasPrefix(e.Stamp, []byte(AnnounceMark)) }

// IsInherited reports whether all that is known of a page is what a manifest
// said, because the state was lost. The first look that finds it makes it a
// page like any other.
func IsInherited(e journal.Entry) bool { return string(e.Stamp) == journal.Inherited }
