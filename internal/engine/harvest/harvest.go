// Package harvest is the role that downloads: it takes closed batches of
// tasks, and fetches from thousands of sites at once, from each as politely as if
// it were the only one. It does not interpret pages.
//
// A site has one slot. Its holder, a task of [Harvester.Run] (or some, see
// Options.AtOnce) or a request by [Harvester.Transport], is the only one that sends
// requests to the site; then the site rests for a gap, and nothing shortens the gap. Sites that wait for
// their gap cost no goroutine and hardly a connection; of those that are ready,
// up to [Harvester].Sites are fetched from at once, in the order of their batch.
//
// Every misbehavior of a site ends in a [Fault], within a bounded time and a
// bounded number of bytes. Faults of the cycle itself, and of the crawler's own
// name server, are not blamed on pages: those tasks come back with
// [FaultStopped], to be fetched later.
package harvest

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/protocol"
)

// A Task is one URL to fetch.
type Task struct {
	Page frontier.PageID `json:"page,omitempty"` // 0: a source, such as robots.txt
	URL  string          `json:"url"`

	// Source is the number of the source that is fetched, 0 for a page.
	Source uint64 `json:"source,omitempty"`

	IfNoneMatch     string `json:"if_none_match,omitempty"`
	IfModifiedSince string `json:"if_modified_since,omitempty"`

	// MaxBytes bounds the body after decoding; 0 means the harvester's own limit.
	MaxBytes int64 `json:"max_bytes,omitempty"`

	// Signal is the reason for the task: what named the URL, see collection.Signal.
	Signal string `json:"signal,omitempty"`

	// Held is the digest of the stored content: a site that supports deltas
	// (RFC 9842) may send the difference from it. Dictionary says that this site does.
	Held       protocol.Digest `json:"held,omitzero"`
	Dictionary bool            `json:"dictionary,omitempty"`

	// The fields below are for the consumer of the answer. Want is the announced digest.
	Depth int             `json:"depth,omitempty"`
	Want  protocol.Digest `json:"want,omitzero"`
	Text  bool            `json:"text,omitempty"` // digest the main text: the bytes differ at each request
	Lost  bool            `json:"lost,omitempty"` // the file with the stored content is missing or too short

	Claimed time.Time `json:"claimed,omitzero"` // when Want was announced
}

// A SiteBatch holds the tasks of one site, in order, with all that is needed to
// be polite to it.
type SiteBatch struct {
	Site   frontier.SiteID `json:"site"`
	Origin string          `json:"origin"` // "https://example.org"
	Pages  int             `json:"pages"`  // known of the site: larger sites have shorter gaps

	// Delay is the site's Crawl-delay, 0 if it states none.
	Delay time.Duration `json:"delay,omitempty"`

	Tasks []Task `json:"tasks"`

	Chosen time.Time `json:"-"` // the tasks come back if the site was paused since, if only for a moment; zero: they do not
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
	FaultAddress  Fault = "address"  // a private or blocked address, or a port of another protocol: no request was sent
	FaultConnect  Fault = "connect"  // no connection, TLS included
	FaultTimeout  Fault = "timeout"  // too long without a byte, or as a whole
	FaultSlow     Fault = "slow"     // under the minimum speed
	FaultProtocol Fault = "protocol" // not HTTP, no header, or cut short
	FaultSize     Fault = "size"     // Body is truncated at the limit
	FaultCoding   Fault = "coding"   // a content coding that cannot be undone
	FaultStopped  Fault = "stopped"  // not fetched, or given up, since the batch has ended: no fault of the site
)

// An Answer is the result of a Task.
type Answer struct {
	Task
	Site   frontier.SiteID
	Fault  Fault
	Err    error // for people; nil if Fault is empty
	Status int   // 0 if there was none
	Proto  string
	Header http.Header
	Body   []byte   // decoded; valid until Release
	File   *os.File // in place of a large Body, see Harvester.Spill; Wire is its length, and Release removes it unless it was renamed
	Coding string   // the content coding that was undone, such as "gzip"

	// Request is what was sent, in the form of HTTP/1.1 also where it was HTTP/2, without cookies. Authorized says that cookies or a client
	// certificate were sent: the answer is not for everybody.
	Request    []byte
	Authorized bool
	Wire       int64 // bytes of the body as received
	Cut        bool  // Body is truncated, of a response other than the page: no Fault

	Location string // of a redirect, absolute; empty if there is none
	IP       netip.Addr
	Asked    time.Time     // zero if no request was sent for this task
	Latency  time.Duration // from Asked to the first byte of the header
	Took     time.Duration // from Asked to the last byte of the body
	Connect  time.Duration // the part of Took in which a connection was opened, TLS included; 0: one was open

	PerConnection int // requests over its connection, if that took no more after it; 0: it did, or would have

	connect time.Duration // the part of Took before the request was sent
	base    []byte        // the dictionary of a requested delta; nil: none was requested
	release func()
}

// Trouble says in words why there is no useful response; status is that of the response, after redirects.
func (a *Answer) Trouble(status int) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	if a.Fault != "" {
		return string(a.Fault)
	}
	return http.StatusText(status)
}

// Lasting reports whether an error will not pass within a minute: a certificate that cannot be trusted,
// or no TLS version or cipher that both sides support.
func Lasting(err error) bool {
	var op *net.OpError
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, &op) && op.Op == "remote error" ||
		err != nil && strings.Contains(err.Error(), "tls: server selected unsupported protocol version")
}

// Release frees the body's memory and file. It may be called once.
func (a *Answer) Release() {
	a.dropFile()
	if a.release != nil {
		a.release()
		a.release, a.Body = nil, nil
	}
}
