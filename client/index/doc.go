// Package index is a partial inverted index: which words are on which pages of a part of the Web, and how
// often. A site can make its own and send it (C15, Castillo 2004, section 6.4.2: the extreme case of a remote
// agent); a crawler that merges them gets the same index as from all pages.
//
// An index holds documents, each a URL with the digest of the content that was read, its number of words, and
// the count of each word. A URL whose page no longer exists is stored as gone. [Merge] makes one index of
// many: if a URL is in several, the last counts. So a newer index of a few pages can be merged over an older
// one of all. Merging is associative, and its output is, to the byte, that of a [Builder] for the same
// documents.
//
// # The file
//
// Numbers are unsigned LEB128 ("uvarint"), or 8 bytes, little-endian, where noted.
//
//	"parley index 1\n"
//	documents, ordered by the bytes of their URLs; they are numbered from 0:
//	    1 (a page) or 2 (gone)
//	    URL: number of bytes shared with the one before, number of further bytes, those bytes
//	    of a page: 32 bytes, the SHA-256 of its content; the number of its words
//	0
//	terms, ordered by their bytes:
//	    1
//	    term: number of bytes shared with the one before, number of further bytes, those bytes
//	    blocks of postings, each full (4,096) but the last:
//	        the number of postings; their size in bytes
//	        each: number of the document, less that of the posting before, and less one for each but
//	        the first of a term; how often the term occurs there
//	    0
//	0
//	the offset of every 64th document, beginning with the first, 8 bytes each, from the beginning of the file
//	the offset of every 64th term, likewise
//	trailer, 8 bytes each: documents; of them gone; words in all; terms;
//	    the offset of the offsets of documents; and of those of terms;
//	    the CRC-32 (IEEE) of everything before
//
// Every 64th document and term, from the first on, shares nothing with the one before. A file that differs
// from this, or has a number not in its shortest form, is rejected.
//
// # Words
//
// [Words] defines a word. The words of a page are those of its main text, see [Text].
package index

const (
	magic = "parley index 1\n"

	// maxTerm is the length of the longest term, in bytes. Longer words are not indexed.
	maxTerm = 64

	// maxURL is the length of the longest URL, in bytes.
	maxURL = 4 << 10

	every     = 64   // documents, and terms, from one that shares nothing to the next
	fullBlock = 4096 // postings
	trailer   = 7 * 8

	// mostPosting is the largest size of a posting in bytes, and mostDocs the largest number of documents in
	// an index.
	mostPosting = 15
	mostDocs    = 1 << 31
)

// A Doc is a document in an index.
type Doc struct {
	URL    string
	Gone   bool     // the page no longer exists: the rest is zero
	Digest [32]byte // SHA-256 of its content
	Words  uint64   // number of its words
}

// A posting is the count of a term in a document.
type posting struct {
	Doc uint32 // its number in the index
	N   uint32 // at least 1
}
