package main

import "github.com/parleyweb/parley/bench/internal/docroot"

// A site is a docroot that is served.
type site struct {
	*docroot.Docroot
	docroot.Survey        // what links lead to
	base           string // its URL, with a slash at the end
}
