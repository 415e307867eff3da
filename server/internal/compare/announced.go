package compare

import (
	"bytes"

	"github.com/parleyweb/parley/internal/journal"
)

// AnnounceMark begins the stamp of an announced page. It is followed by the announced date, in milliseconds,
// and a hash of the announcement. Stamps of a docroot begin with a device number.
const AnnounceMark = "\x00announced\x00"

// IsAnnounced reports whether a page is in the journal because it was announced.
func IsAnnounced(e journal.Entry) bool { return isAnnounced(e.Stamp) }

func isAnnounced(stamp []byte) bool { return bytes.HasPrefix(stamp, []byte(AnnounceMark)) }

// IsInherited reports whether all that is known of a page comes from a published manifest, because the state
// was lost. The first scan that finds the page makes it an ordinary one.
func IsInherited(e journal.Entry) bool { return string(e.Stamp) == journal.Inherited }
