package crawl

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/internal/budget"
	"github.com/parleyweb/parley/client/crawl/internal/judgement"
	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/gather"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/protocol"
)

// counters count since Run began.
type counters struct {
	began time.Time

	Fetched, Unchanged, Missing, Refused, Faults, Cut, Heard      atomic.Int64
	Bytes, Wire, Told, Ignored, Changed, Duplicates, New, Batches atomic.Int64
	Delivered, DeliveredBytes, Audits, Again, Lost                atomic.Int64
	Batched, Archived, Copied                                     atomic.Int64 // of Delivered
	Sent, Taken                                                   atomic.Int64 // URLs, to and from other partitions
}

// delivered counts a page that came without a request of its own.
func (c *counters) delivered(a *harvest.Answer) {
	if a.Status == http.StatusNotModified {
		c.Unchanged.Add(1)
		return
	}
	c.Delivered.Add(1)
	c.DeliveredBytes.Add(int64(len(a.Body)))
	switch protocol.Form(a.Header.Get(formHeader)) {
	case protocol.AsBatch:
		c.Batched.Add(1)
	case protocol.AsSite:
		c.Archived.Add(1)
	case protocol.AsMeta: // which has no pages
		c.Copied.Add(1)
	}
}

// pages returns the number of pages received, fetched or delivered.
func (c *counters) pages() int64 { return c.Fetched.Load() + c.Delivered.Load() }

// asked counts an answer.
func (c *counters) asked(a *harvest.Answer) {
	if a.Fault == harvest.FaultStopped || a.Asked.IsZero() {
		return // no request was sent
	}
	c.Wire.Add(a.Wire)
	switch {
	case a.Fault != "" && a.Fault != harvest.FaultSize:
		c.Faults.Add(1)
	case a.Page == 0:
	case gather.IsPage(a.Status):
		c.Fetched.Add(1)
		if a.Fault == harvest.FaultSize {
			c.Cut.Add(1)
		}
		if c.Bytes.Add(int64(len(a.Body))); a.Lost {
			c.Lost.Add(1)
		}
	case a.Status == http.StatusNotModified:
		c.Unchanged.Add(1)
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		c.Missing.Add(1)
	default:
		c.Refused.Add(1)
	}
}

// A Status is a snapshot of a crawler. Counts are since its start.
type Status struct {
	Running bool      `json:"running"`
	Began   time.Time `json:"began,omitzero"`
	Ends    string    `json:"ends,omitempty"` // why the crawl is about to end

	Sites    int   `json:"sites"`     // known
	InFlight int   `json:"in_flight"` // sites with open tasks
	Queue    int   `json:"queue"`     // pages that may be fetched now, or are being fetched
	Busy     int   `json:"busy"`      // tasks under way
	Followed int   `json:"followed"`  // sites that publish their changes
	Batches  int64 `json:"batches"`

	Requests       int64 `json:"requests"`
	Fetched        int64 `json:"fetched"`         // pages with a body
	Truncated      int64 `json:"fetched_in_part"` // of those, truncated at the size limit
	Lost           int64 `json:"lost"`            // of Fetched, pages whose stored content was lost
	Unchanged      int64 `json:"unchanged"`       // 304
	Missing        int64 `json:"missing"`         // 404, 410
	Refused        int64 `json:"refused"`         // other responses without a page
	Faults         int64 `json:"faults"`          // no response, or an incomplete one
	Changed        int64 `json:"changed"`         // pages that were new or different
	Duplicates     int64 `json:"duplicates"`
	Sent           int64 `json:"sent,omitempty"`  // URLs that were found of other partitions, and sent to their crawlers
	Taken          int64 `json:"taken,omitempty"` // URLs that these have sent
	New            int64 `json:"new"`             // URLs that were not known
	Told           int64 `json:"told"`            // changes that sources announced
	Ignored        int64 `json:"ignored"`         // of those, changes that were not believed
	Delivered      int64 `json:"delivered"`       // pages that came without a request of their own
	DeliveredBytes int64 `json:"delivered_bytes"` // of those, decoded
	Batched        int64 `json:"batched"`         // of those, pages that came in batches
	Archived       int64 `json:"archived"`        // and in archives of a whole site
	Pushed         int64 `json:"pushed"`          // and with their change
	Copied         int64 `json:"copied"`          // and copies of equal pages

	Audits int64 `json:"audits"`      // visits to pages of which their site, although it publishes its changes, had announced none
	Again  int64 `json:"asked_again"` // repeated visits to pages that had differed from their announcement

	// Received says what became of announced changes, by signal (C30).
	Received map[collection.Signal]collection.Reception `json:"received"`
	Bytes    int64                                      `json:"bytes"` // of pages, decoded
	Wire     int64                                      `json:"wire"`  // of all bodies fetched by tasks, as received

	// Listened is how many bytes came by manifests, changes, batches, archives and
	// streams, with all protocol overhead.
	Listened int64 `json:"listened"`

	Heard   int64  `json:"heard"`             // manifests and other sources that were read, or are unchanged
	Trouble string `json:"trouble,omitempty"` // the first of any site since the start

	// Waiting is how many pages are held back since pages like them led to little new, and Traps their families.
	Waiting int    `json:"waiting"`
	Traps   []Trap `json:"traps,omitempty"`

	// Owed are the announced pages that a crawl with Once has not fetched at its end.
	Owed []Unfetched `json:"owed,omitempty"`

	Revisits    *Revisits          `json:"revisits,omitempty"`   // nil where the policy has no price, or before the first plan
	Truth       []judgement.Decile `json:"truth,omitempty"`      // how the visits and manifests since the start have compared with the estimates
	Predictions fresh.Predictions  `json:"predictions,omitzero"` // that visits have judged, at most 256 of each site, in earlier runs too

	TruthOf func(frontier.SiteID) judgement.Decile `json:"-"` // the same as Truth, by now, for the pages of one site; nil of a copy
}

// Came returns the number of all bytes received.
func (s *Status) Came() int64 { return s.Wire + s.Listened }

// Nothing reports whether neither a page nor a source was received, and no URL exchanged.
func (s *Status) Nothing() bool {
	return s.Fetched+s.Unchanged+s.Delivered+s.Heard+s.Sent+s.Taken == 0
}

// Revisits are the figures of the last plan of revisits.
type Revisits = budget.Figures

// Status returns a snapshot. It may be called at any time, also after Run.
func (c *Crawler) Status() Status {
	r := c.run.Load()
	if r == nil {
		if s := c.last.Load(); s != nil {
			return *s
		}
		return Status{}
	}
	n, asked := r.count, c.Harvester.Stats() // followers' requests are among them
	s := Status{Running: true, Began: r.count.began,
		Requests: asked.Requests, Fetched: n.Fetched.Load(), Truncated: n.Cut.Load(), Audits: n.Audits.Load(), Again: n.Again.Load(), Lost: n.Lost.Load(), Unchanged: n.Unchanged.Load(), Missing: n.Missing.Load(),
		Refused: n.Refused.Load(), Faults: n.Faults.Load(), Bytes: n.Bytes.Load(), Wire: n.Wire.Load(), Listened: asked.Transported, Told: n.Told.Load(), Ignored: n.Ignored.Load(),
		Changed: n.Changed.Load(), Duplicates: n.Duplicates.Load(), New: n.New.Load(), Batches: n.Batches.Load(), Sent: n.Sent.Load(), Taken: n.Taken.Load(),
		Delivered: n.Delivered.Load(), DeliveredBytes: n.DeliveredBytes.Load(), Batched: n.Batched.Load(), Archived: n.Archived.Load(), Copied: n.Copied.Load(),
		InFlight: asked.Sites}
	s.Pushed = s.Delivered - s.Batched - s.Archived - s.Copied
	r.work.Lock()
	defer r.work.Unlock()
	s.Ends, s.Sites, s.Queue, s.Busy = r.work.reason, len(r.sites.byID), r.front.Len()+len(r.work.out), r.work.busy
	s.Followed = r.followers.publishing
	s.Received = make(map[collection.Signal]collection.Reception, len(r.announcements.receptions))
	for by, n := range r.announcements.receptions {
		s.Received[by] = *n
	}
	r.plan.report(&s)
	s.Waiting, s.Traps = r.families.waiting, r.families.traps()
	s.Heard, s.Trouble = n.Heard.Load(), r.sites.faults.first
	s.Owed = r.unfetched
	return s
}
