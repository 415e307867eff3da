package protocol

import "fmt"

// A Form is the representation of changes: the parameter "as" of a door. All
// forms are the same journal, read from the same cursor, and each is available
// by polling and by push (Castillo 2004, table 6.1: C02). A reader may change
// the form with every request or connection.
type Form string

// The forms.
const (
	AsMeta  Form = "meta"  // metadata of each change: C03, C04
	AsDelta Form = "delta" // with a difference to the previous bytes: C05, C06
	AsPage  Form = "page"  // with the page as it is now: C07, C08
	AsBatch Form = "batch" // many changes at once, each page once in its last state: C09, C10
	AsSite  Form = "site"  // an archive of the whole site, where most of it is new to the reader: C11, C12
)

// Forms returns all forms, the smallest first.
func Forms() []Form { return []Form{AsMeta, AsDelta, AsPage, AsBatch, AsSite} }

// ParseForm parses the name of a form. The empty name is AsMeta.
func ParseForm(name string) (Form, error) {
	if name == "" {
		return AsMeta, nil
	}
	for _, f := range Forms() {
		if name == string(f) {
			return f, nil
		}
	}
	return "", fmt.Errorf("parse form %.40q: want meta, delta, page, batch or site", name)
}
