// Package maintext measures how much of a page's main text has changed: it masks the volatile parts of a main
// text, digests it, and makes a small sketch of it, so that the next version can be compared when this one is
// gone. It also learns from two builds of a site which parts are volatile.
package maintext

import (
	"bytes"

	"github.com/parleyweb/parley/protocol"
)

// Read masks a main text and returns its digest and its sketch. The text is as in html.Page: blocks on lines
// of their own, white space as single spaces. The sketch takes some 60 bytes for a page of a few hundred
// words, and never more than 219.
func (m Masks) Read(text []byte) (protocol.Digest, []byte) {
	text = m.Apply(text)
	digest := protocol.Sum(text)
	return digest, newSketch(text, digest).append(nil)
}

// Share returns the share, 0 to 1, of the words of two versions of a text that are in only one of them, from
// their sketches: one replaced word of 100 is 0.01. A word is separated by white space or, in scripts without
// it, a character; the number of occurrences counts, the order does not.
//
// The share is an estimate. Two of three estimates are within an eighth of the true share, whatever the size of the
// text, and 99 of 100 within 40 % or two words. It is 0 for equal sketches, which are those of equal texts,
// and for no others. If only one of the texts has words, it is 1.
//
// Known is false if either sketch is invalid, or of an unknown version.
func Share(before, after []byte) (share float64, known bool) {
	a, ok := parseSketch(before)
	b, ok2 := parseSketch(after)
	switch {
	case !ok || !ok2:
		return 0, false
	case bytes.Equal(before, after):
		return 0, true
	}
	all := a.words + b.words
	if all == 0 {
		return 1, true // no text has such sketches
	}
	least := max(a.words, b.words) - min(a.words, b.words) // at least so many are in one only
	changed := min(max(a.distance(b), least, 1), all)
	return float64(changed) / float64(all), true
}
