package protocol

import "fmt"

// A Form is how a change is told: the parameter "as" of a door. All forms are
// the same journal, read from the same cursor; each is to be had by asking and
// by being told (Castillo 2004, table 6.1: C02). A reader may change the form
// whenever it asks or connects anew.
type Form string

// The forms.
const (
	AsMeta  Form = "meta"  // what changed, and what to expect there: C03, C04
	AsDelta Form = "delta" // beside it how it changed, against the bytes before: C05, C06
	AsPage  Form = "page"  // beside it what the page is now: C07, C08
	AsBatch Form = "batch" // many changes at once, each page once as it is last: C09, C10
	AsSite  Form = "site"  // an archive of the whole site, where most of it is news: C11, C12
)

// Forms returns all forms, the leanest first.
func Forms() []Form { return []Form{AsMeta, AsDelta, AsPage, AsBatch, AsSite} }

// ParseForm reads the name of a form. The empty name is AsMeta.
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
