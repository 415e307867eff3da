package protocol

import "time"

// DiscoveryPath is where a site describes itself, below its base URL.
const DiscoveryPath = ".well-known/parley"

// MaxDiscovery bounds a Discovery as it is read, in bytes.
const MaxDiscovery = 64 << 10

// MaxHeartbeat is the longest silence of a stream that a reader believes in.
const MaxHeartbeat = 10 * time.Minute

// A Discovery is what a site says at DiscoveryPath below its base URL: which
// doors it has, and what may be asked there. What is empty is not to be had.
type Discovery struct {
	Version      int      `json:"version"` // 1
	Base         string   `json:"base"`
	Manifest     string   `json:"manifest"`
	Changes      string   `json:"changes"`
	Stream       string   `json:"stream,omitempty"`
	Subprotocols []string `json:"subprotocols,omitempty"`
	Epoch        string   `json:"epoch"`
	Head         Cursor   `json:"head"`
	Floor        Cursor   `json:"floor"`
	Heartbeat    int      `json:"heartbeat"`       // seconds
	Items        int      `json:"items,omitempty"` // of the manifest

	Forms   []Form   `json:"forms,omitempty"`   // none named: AsMeta alone
	Filters []string `json:"filters,omitempty"` // parameters that changes and stream take; not all of them go with every door
	Query   string   `json:"query,omitempty"`   // what is offered now, filtered: a manifest that is not complete
	Batch   string   `json:"batch,omitempty"`   // many pages in one answer
	Site    string   `json:"site,omitempty"`    // the archive of the whole site
	Agents  string   `json:"agents,omitempty"`  // where programs are sent
	Inline  int      `json:"inline,omitempty"`  // bytes of a Body within a message, at most

	// Welcome is how the site wishes to be asked; nil: as everybody thinks polite.
	Welcome *Welcome `json:"welcome,omitempty"`

	OpenAPI  string `json:"openapi,omitempty"`  // descriptions of the doors
	AsyncAPI string `json:"asyncapi,omitempty"` // and of the stream
}

// A Welcome is how a site wishes to be asked, by any one crawler, beyond what is
// polite without its word or short of it. Zero says nothing.
type Welcome struct {
	Rate        float64 `json:"rate,omitempty"`        // requests a second
	Connections int     `json:"connections,omitempty"` // at a time
	Batch       int     `json:"batch,omitempty"`       // pages a batch, at most
}
