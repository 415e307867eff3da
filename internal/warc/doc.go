// Package warc reads and writes WARC 1.1 (ISO 28500), and its CDXJ index.
package warc
