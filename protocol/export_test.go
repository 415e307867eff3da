package protocol

import "github.com/beevik/etree"

// What tests name beside what everybody does.

// Extensions returns the elements of the channel that Parley has no meaning
// for; it is complete when Head is. Compare their NamespaceURI, not their prefix.
func (r *ManifestReader) Extensions() []*etree.Element { return r.exts }
