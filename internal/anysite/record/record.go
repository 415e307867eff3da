// Package record describes what a run of internal/anysite leaves behind: the plan, what the web server
// showed, what passed between the programs, and what each program stored in the end. The runner writes it and
// the oracles of internal/anysite/judge read it, so it uses none of Parley's own packages: a recording can be
// stored as JSON, altered, and judged again.
//
// Bodies are identified by the hex SHA-256 of the body without content coding (Sum), times are from the
// runner's own clock, and URLs are absolute.
package record

import "time"

// A Recording is one run.
type Recording struct {
	Seed     uint64
	Ended    time.Time          // when the copies were read
	Features []string           // what the seed drew, such as "front=nginx-tls", "store=both", "step=kill-crawler"
	Settings []Program          // every program that was started, with its options
	Steps    []Step             // what happened, in order
	Fetches  []Fetch            // W: what anonymous GETs through the front server showed
	Requests []Request          // what the tap between the programs and the front server saw
	Docroot  []Fetch            // files as they were written: At, URL, Sum and Size
	Given    []Given            // bodies that left a notifier by a door other than a plain GET of the page
	Copies   []Copy             // what each crawler stores at the end
	Events   map[string][]Event // by crawler: its events from zero, in order
	Accounts map[string]Account // by crawler: what its own commands say at the end
	Exits    []Exit             // how programs ended
	Usage    []Usage
	Bodies   map[string][]byte `json:",omitempty"` // by Sum: the bodies that a judge may read
}

// A Program is one program as it was started.
type Program struct {
	Name    string // "notifier-1", "crawler-1", "rdfgen-1"
	Kind    string // "notifier", "rdfgen", "crawl", "run" or "follow"
	Args    []string
	Options map[string]string // every option of its table with the value in force, defaults included
	Sites   []string          // base URLs that it publishes or crawls
	Started time.Time
}

// A Step is one thing that was done to a site or to a program.
type Step struct {
	At      time.Time
	Done    time.Time
	Kind    string   // "edit", "create", "move", "copy", "delete", "rebuild", "protect", "robots-lost", "robots-back", "kill", "restart", "disk-full", "wrong-docroot", "quiet" ...
	Target  string   // the base URL of the site, or the name of the program
	URLs    []string // pages concerned; for a move the old one and then the new one
	Detail  string
	Failure bool // drawn so that some program is expected to fail, see Exit
}

// A Fetch is an anonymous GET through the front server. The runner makes its own after each step, from an
// address of its own; the tap saw those of others.
type Fetch struct {
	At                           time.Time
	URL                          string
	Status                       int // 0: no answer
	Location                     string
	Type                         string
	Sum                          string
	Size                         int64
	ByTap                        bool   // a GET of another client, without credentials
	From                         string // address of the client
	NoIndex, NoArchive, NoFollow bool   // according to the page or its headers
	Canonical                    string
	Links                        []string // absolute URLs of its links, by the HTML standard's base rules
}

// A Request is one request that the tap saw.
type Request struct {
	Began, Ended time.Time // first byte of the request; last byte of the response
	Sent         time.Time `json:",omitzero"` // the earliest moment when the request may have been sent; zero is Began
	From         string    // name of the program
	Host         string    // host and port as dialled by name
	Address      string    // IP address and port of the connection
	Conn         int       // connection number, over all programs
	Method, URL  string
	Header       map[string]string // request headers that a judge needs: user-agent, authorization, if-none-match ...
	Status       int
	Sum          string
	Size         int64  // bytes on the wire
	Door         string // "" for a page; "robots", "manifest", "changes", "stream", "batch", "archive", "delta", "query", "sitemap", "feed", "well-known"
	Truncated    bool   // cut by one of the sides
}

// A Given is a body of a page that left by a door: pushed in a frame, in a batch, a bundle or an archive, or
// as a delta against an older version.
type Given struct {
	At   time.Time
	Site string
	To   string // name of the program, or "reader" for the runner's own
	Door string // "page", "delta", "batch", "bundle", "archive"
	URL  string
	Sum  string
}

// A Copy is what a crawler stores at the end.
type Copy struct {
	Crawler string
	Pages   map[string]Stored // by URL
	Files   map[string]string // mirror: files below the root, with their Sums
	WARC    []WARCRecord
	Err     string // why the copy could not be read
}

// Stored is one URL in a copy.
type Stored struct {
	Status    int
	Sum       string // empty: no content
	Size      int64
	Stored    time.Time // when the content was obtained, according to the crawler; zero: unknown
	Truncated bool
	NoIndex   bool
	NoFollow  bool
	Why       string // what `crawler why` or `pages` reports for a page without content
}

// A WARCRecord is one record of a WARC file, read without Parley.
type WARCRecord struct {
	File   string
	Offset int64
	Type   string // "response", "revisit", "resource", "request", "warcinfo" ...
	URL    string
	At     time.Time
	Status int
	Sum    string
	Err    string // why it could not be read
}

// An Event is a line of `crawler events`.
type Event struct {
	Cursor    string // EPOCH:SEQ
	Op        string // "create", "update", "delete", "move", or "gone" as the program calls it
	URL, From string
	Sum       string
	At        time.Time
	Flags     []string // "noindex", "nofollow", "truncated" ...
}

// An Account holds a crawler's own reports.
type Account struct {
	Status map[string]any   // `status --json`
	Sites  []map[string]any // `sites --json`
	Pages  []map[string]any // `pages --json`
	Why    map[string]string
}

// An Exit records how a program ended.
type Exit struct {
	Program string
	At      time.Time
	Code    int
	Killed  bool // by the runner, with SIGKILL
	Asked   bool // by the runner, with SIGTERM or SIGINT
	Stdout  string
	Stderr  string
}

// Usage is the maximum that a program used.
type Usage struct {
	Program   string
	PeakRSS   int64 // bytes
	StateSize int64 // bytes of its state files at the end
	Written   int64 // bytes, where known
	CPU       time.Duration
}
