package protocol

import "github.com/beevik/etree"

// Names that only tests use.

// Extensions returns the channel's elements that Parley does not know; it is complete when Head is. Compare
// their NamespaceURI, not their prefix.
func (r *ManifestReader) Extensions() []*etree.Element { return r.channel.exts }
