package main

import "github.com/parleyweb/parley/bench/internal/docroot"

// A site is a docroot that is served, by one host or by several.
type site struct {
	*docroot.Docroot
	docroot.Survey          // what links lead to
	bases          []string // its URLs, with a slash at the end
}
