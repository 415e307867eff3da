// Package harvest is the role that downloads: it takes closed batches of
// tasks, and asks thousands of sites at once, each as politely as if it were
// the only one. It knows nothing of what pages mean.
//
// A site has one turn. Who has it, a task of the [Harvester.Run] or a request
// by [Harvester.Transport], is the only one that asks the site; after that the
// site is left in peace for a gap, and nothing makes the gap shorter. Sites
// that wait for their gap cost no goroutine and no connection worth the name;
// of those that may be asked, as many as [Harvester].Sites are asked at once,
// in the order of their batch.
//
// Everything that a site can do wrong ends in a [Fault], within a bounded time
// and a bounded number of bytes. Faults of the cycle itself, and of the name
// server that the crawler uses, are not laid at the door of any page: those
// tasks come back with [FaultStopped], to be asked for again.
package harvest

import (
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/parleyweb/parley/client/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A Task is one URL to ask for.
type Task struct {
	Page frontier.PageID `json:"page,omitempty"` // 0: a source, such as robots.txt
	URL  string          `json:"url"`

	// Source is the number of the source that is asked, 0 for a page.
	Source uint64 `json:"source,omitempty"`

	IfNoneMatch     string `json:"if_none_match,omitempty"`
	IfModifiedSince string `json:"if_modified_since,omitempty"`

	// MaxBytes bounds the body after decoding; 0 means the harvester's own limit.
	MaxBytes int64 `json:"max_bytes,omitempty"`

	// Signal says why: what named the URL, see collection.Signal.
	Signal string `json:"signal,omitempty"`

	// Held is the digest of what is held of a page: a site that makes differences
	// (RFC 9842) may send what differs from it. Dictionary says that this one does.
	Held       protocol.Digest `json:"held,omitzero"`
	Dictionary bool            `json:"dictionary,omitempty"`

	// What follows travels with the task for whoever reads the answer.
	Depth int             `json:"depth,omitempty"`
	Want  protocol.Digest `json:"want,omitzero"`
	Text  bool            `json:"text,omitempty"` // its main text is to be digested: its bytes differ at each request

	Claimed time.Time `json:"claimed,omitzero"` // when that was told
}

// A SiteBatch is the tasks of one site, in order, with all that is needed to
// be polite to it.
type SiteBatch struct {
	Site   frontier.SiteID `json:"site"`
	Origin string          `json:"origin"` // "https://example.org"
	Pages  int             `json:"pages"`  // known of the site: large sites are waited for less

	// Delay is the site's Crawl-delay, 0 if it states none.
	Delay time.Duration `json:"delay,omitempty"`

	Tasks []Task `json:"tasks"`
}

// A Batch is a closed set of tasks (V15): a harvester needs nothing else, on
// this machine or another.
type Batch struct {
	Number uint64      `json:"number"`
	Sites  []SiteBatch `json:"sites"`
}

// A Fault says why there is no answer, or no whole one.
type Fault string

// The faults. The zero Fault means that the answer is whole.
const (
	FaultDNS      Fault = "dns"      // the name could not be resolved
	FaultAddress  Fault = "address"  // a private or blocked address, or a port of another protocol: not asked
	FaultConnect  Fault = "connect"  // no connection, TLS included
	FaultTimeout  Fault = "timeout"  // too long without a byte, or as a whole
	FaultSlow     Fault = "slow"     // under the minimum speed
	FaultProtocol Fault = "protocol" // not HTTP, no header, or cut short
	FaultSize     Fault = "size"     // Body holds what came before the limit
	FaultCoding   Fault = "coding"   // a content coding that cannot be undone
	FaultStopped  Fault = "stopped"  // not asked, or given up, since the batch has ended: no fault of the site
)

// An Answer is what became of a Task.
type Answer struct {
	Task
	Site   frontier.SiteID
	Fault  Fault
	Err    error // for people; nil if Fault is empty
	Status int   // 0 if there was none
	Proto  string
	Header http.Header
	Body   []byte   // decoded; valid until Release
	File   *os.File // in place of a Body that was large, see Harvester.Spill; Wire is its length, and Release removes it unless it was renamed
	Coding string   // that was undone, such as "gzip"
	Wire   int64    // bytes of the body as they came
	Cut    bool     // Body is not whole, of an answer that is not the page: no Fault

	Location string // of a redirect, absolute; empty if there is none
	IP       netip.Addr
	Asked    time.Time     // zero if the site was not asked at all for this task
	Latency  time.Duration // until the first byte of the header
	Took     time.Duration // until the last of the body; both from Asked on

	base    []byte // of the page, against which a difference was asked for; nil: none was
	release func()
}

// Release gives the body's memory back. It may be called once.
func (a *Answer) Release() {
	a.dropFile()
	if a.release != nil {
		a.release()
		a.release, a.Body = nil, nil
	}
}
