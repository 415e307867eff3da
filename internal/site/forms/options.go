package forms

import "strings"

// Options enable forms, and queries. The zero value leaves the manifest and the changes, by polling.
type Options struct {
	Stream      bool    // subscriptions and long polls
	Pages       bool    // pages themselves: the forms page and batch
	Versions    int64   // bytes of old versions to keep, for differences: the form delta
	Archive     bool    // the whole site as one file: the form site
	Share       float64 // of the site that must have changed for its archive to be announced
	Query       bool    // current items, filtered
	Expressions bool    // filters that are expressions
	Serve       bool    // requests for the pages' own URLs
	Expires     bool    // with a prediction of each page's next change
}

// Preset returns the options for an admin's budget (Castillo 2004, 6.4: C43): low, moderate or high.
func Preset(budget string) (o Options, ok bool) {
	o.Share = 0.5
	switch budget {
	case "low":
		return o, true
	case "moderate":
		o.Stream = true
		return o, true
	case "high":
		o.Stream, o.Pages, o.Versions, o.Archive, o.Query, o.Expressions = true, true, 1<<30, true, true, true
		return o, true
	}
	return o, false
}

// String names the enabled forms, for people.
func (o Options) String() string {
	var on []string
	for _, x := range []struct {
		name string
		on   bool
	}{{"manifest and changes", true}, {"stream", o.Stream}, {"pages", o.Pages}, {"differences", o.Versions > 0}, {"archive", o.Archive},
		{"query", o.Query}, {"expressions", o.Expressions}, {"pages served", o.Serve}} {
		if x.on {
			on = append(on, x.name)
		}
	}
	return strings.Join(on, ", ")
}
