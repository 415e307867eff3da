// Package index is a partial inverted index: which words stand on which pages
// of a part of the Web, and how often. A site can make its own and send it
// (C15, Castillo 2004, section 6.4.2: the extreme case of a remote agent); whoever
// collects them merges them, and has what he would have made of all pages himself.
//
// An index holds documents, each a URL with the digest of the content that was
// read, how many words that had, and how often each stands there. What was known of a URL and is no more is
// held as gone. [Merge] makes one index of many: of a URL that is in several the
// last counts. So a newer index of a few pages can be laid over an older one of all. Merging
// is associative, and what it makes is, to the byte, what a [Builder] makes of the same documents.
//
// # The file
//
// Numbers are unsigned LEB128 ("uvarint"), or 8 bytes, little-endian, where that is said.
//
//	"parley index 1\n"
//	documents, ordered by the bytes of their URLs; they are numbered from 0:
//	    1 (a page) or 2 (gone)
//	    URL: how many bytes it shares with the one before, how many follow, those
//	    of a page: 32 bytes, the SHA-256 of its content; the number of its words
//	0
//	terms, ordered by their bytes:
//	    1
//	    term: how many bytes it shares with the one before, how many follow, those
//	    blocks of postings, each full (4,096) but the last:
//	        the number of postings; their size in bytes
//	        each: number of the document, less that of the posting before, and less one for each but
//	        the first of a term; how often the term stands there
//	    0
//	0
//	the place of every 64th document, beginning with the first, 8 bytes each, from the beginning of the file
//	the place of every 64th term, likewise
//	trailer, 8 bytes each: documents; of them gone; words in all; terms;
//	    the place of the places of documents; and of those of terms;
//	    the CRC-32 (IEEE) of everything before
//
// The 64th document and term, and so on, share nothing with the one before. What
// is not so, or not in the shortest form of it, is refused.
//
// # Words
//
// [Words] says what a word is. Those of a page are those of its main text, as [Page] reads it.
package index

const (
	magic = "parley index 1\n"

	// maxTerm is the length of the longest term, in bytes. Longer words are not indexed.
	maxTerm = 64

	// maxURL is the length of the longest URL, in bytes.
	maxURL = 4 << 10

	every     = 64   // documents, and terms, between two that share nothing
	fullBlock = 4096 // postings
	trailer   = 7 * 8

	// mostPosting is how many bytes a posting takes at most, and mostDocs how
	// many documents an index has at most.
	mostPosting = 15
	mostDocs    = 1 << 31
)

// A Doc is what an index holds of a document.
type Doc struct {
	URL    string
	Gone   bool     // there is nothing any more: the rest is zero
	Digest [32]byte // SHA-256 of its content
	Words  uint64   // on it
}

// A posting says how often a term stands in a document.
type posting struct {
	Doc uint32 // its number
	N   uint32 // at least 1
}
