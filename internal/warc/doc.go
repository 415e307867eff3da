// Package warc reads and writes WARC 1.1 (ISO 28500:2017), the format of Web
// archives, and CDXJ, its index of lines.
//
// A [Writer] fills a directory with files, one after the other, each record a
// piece of its own (a gzip member, a Zstandard frame, or plain), so that
// whoever knows its [Place] reads it alone. A [Reader] reads any file, also of
// others, also a damaged one. [Validate] is strict about everything that the
// standard says, which neither of the two is. An [Index] finds the records of
// a URL.
//
// What is archived of an answer is what a crawler works with: the header as
// it came, and the body without transfer and content codings. Fields that
// spoke of the codings are kept under the name X-Crawl-..., as Common Crawl
// does, so that the message is one that holds together.
//
// Digests are written as "sha256:" and lower-case hexadecimal. Base32, usual
// for SHA-1, would have to be padded for SHA-256, which the grammar of the
// standard forbids and some readers demand; this is what all of them take.
package warc
