package protocol

import "time"

// DiscoveryPath is the path of a site's [Discovery], below its base URL.
const DiscoveryPath = ".well-known/parley"

// MaxDiscovery bounds the bytes of a Discovery that a reader accepts.
const MaxDiscovery = 64 << 10

// MaxHeartbeat caps the heartbeat that a reader assumes of a stream.
const MaxHeartbeat = 10 * time.Minute

// A Discovery is the document at DiscoveryPath below a site's base URL. It names
// the site's doors and the parameters that they accept. An empty member means
// that the site does not offer it.
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
	Items        int      `json:"items,omitempty"` // in the manifest

	Forms   []Form   `json:"forms,omitempty"`   // empty: AsMeta alone
	Filters []string `json:"filters,omitempty"` // parameters of changes and stream; other doors take some of them
	Query   string   `json:"query,omitempty"`   // the current items, filtered: a manifest that is not complete
	Batch   string   `json:"batch,omitempty"`   // many pages in one response
	Site    string   `json:"site,omitempty"`    // the archive of the whole site
	Agents  string   `json:"agents,omitempty"`  // where crawlers upload programs
	Inline  int      `json:"inline,omitempty"`  // bytes of a Body within a message, at most

	// Welcome is the request rate that the site invites; nil leaves it to the crawler.
	Welcome *Welcome `json:"welcome,omitempty"`

	OpenAPI  string `json:"openapi,omitempty"`  // describes the doors
	AsyncAPI string `json:"asyncapi,omitempty"` // describes the stream
}

// A Welcome is the load that a site invites from each crawler; it may be above or
// below the crawler's own politeness. A zero field leaves it to the crawler.
type Welcome struct {
	Rate        float64 `json:"rate,omitempty"`        // requests per second
	Connections int     `json:"connections,omitempty"` // at a time
	Batch       int     `json:"batch,omitempty"`       // pages per batch, at most
}
