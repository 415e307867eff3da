// Package warc reads and writes WARC 1.1 (ISO 28500:2017), the format of Web
// archives, and CDXJ, its index of lines.
//
// A [Writer] fills a directory with files, one after the other. Each record is compressed on its own (a gzip
// member, a Zstandard frame) or plain, so that its [Place] is enough to read it alone. A [Reader] reads any
// file, also of other writers, also a damaged one. An [Index] finds the records of a URL.
//
// A response is archived as a crawler uses it: the header as received, and the body without transfer and
// content codings. Header fields about the codings are renamed to X-Crawl-..., as Common Crawl does, so that
// the message is consistent.
//
// Digests are written as "sha256:" and lower-case hexadecimal. Base32, usual for SHA-1, would have to be
// padded for SHA-256, which the grammar of the standard forbids and some readers demand; all of them accept
// hexadecimal.
package warc
