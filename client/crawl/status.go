package crawl

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl/harvest"
)

// counters count since Run began.
type counters struct {
	Fetched, Unchanged, Missing, Refused, Faults, Cut, Heard      atomic.Int64
	Bytes, Wire, Told, Ignored, Changed, Duplicates, New, Batches atomic.Int64
	Delivered, DeliveredBytes, Audits, Again                      atomic.Int64
}

// delivered counts a page that came without a request of its own.
func (c *counters) delivered(a *harvest.Answer) {
	if a.Status == http.StatusNotModified {
		c.Unchanged.Add(1)
		return
	}
	c.Delivered.Add(1)
	c.DeliveredBytes.Add(int64(len(a.Body)))
}

// pages are those that came, however they did.
func (c *counters) pages() int64 { return c.Fetched.Load() + c.Delivered.Load() }

// asked counts an answer.
func (c *counters) asked(a *harvest.Answer) {
	if a.Fault == harvest.FaultStopped || a.Asked.IsZero() {
		return // it was not asked for
	}
	c.Wire.Add(a.Wire)
	switch {
	case a.Fault != "" && a.Fault != harvest.FaultSize:
		c.Faults.Add(1)
	case a.Page == 0:
	case isPage(a.Status):
		c.Fetched.Add(1)
		if a.Fault == harvest.FaultSize {
			c.Cut.Add(1)
		}
		c.Bytes.Add(int64(len(a.Body)))
	case a.Status == http.StatusNotModified:
		c.Unchanged.Add(1)
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		c.Missing.Add(1)
	default:
		c.Refused.Add(1)
	}
}

// A Status says how a crawler stands. Counts are since it was started.
type Status struct {
	Running bool      `json:"running"`
	Began   time.Time `json:"began,omitzero"`
	Ends    string    `json:"ends,omitempty"` // why the crawl is about to end

	Sites    int   `json:"sites"`     // known
	InFlight int   `json:"in_flight"` // sites being asked, or waiting for their turn
	Queue    int   `json:"queue"`     // pages that may be asked for now
	Busy     int   `json:"busy"`      // tasks under way
	Followed int   `json:"followed"`  // sites that tell of themselves
	Batches  int64 `json:"batches"`

	Requests       int64 `json:"requests"`
	Fetched        int64 `json:"fetched"`         // pages with a body
	Truncated      int64 `json:"fetched_in_part"` // of those, longer than is read
	Unchanged      int64 `json:"unchanged"`       // 304
	Missing        int64 `json:"missing"`         // 404, 410
	Refused        int64 `json:"refused"`         // other answers without a page
	Faults         int64 `json:"faults"`          // no answer, or not a whole one
	Changed        int64 `json:"changed"`         // pages that were new or other than before
	Duplicates     int64 `json:"duplicates"`
	New            int64 `json:"new"`             // URLs that were not known
	Told           int64 `json:"told"`            // changes that sources told
	Ignored        int64 `json:"ignored"`         // of those, how many were not believed
	Delivered      int64 `json:"delivered"`       // pages that came without a request of their own
	DeliveredBytes int64 `json:"delivered_bytes"` // of those, decoded

	Audits int64 `json:"audits"`      // visits to pages of sites that tell of their changes, and had said nothing of these
	Again  int64 `json:"asked_again"` // visits to pages that had not been what was told

	// Received says what became of what was told, by how (C30).
	Received map[collection.Signal]collection.Reception `json:"received"`
	Bytes    int64                                      `json:"bytes"` // of pages, decoded
	Wire     int64                                      `json:"wire"`  // of all bodies that were asked for one by one, as they came

	// Listened is how many bytes came from whatever sites tell by: manifests,
	// changes, batches, archives and streams, with all that is around them.
	Listened int64 `json:"listened"`

	Heard   int64  `json:"heard"`             // manifests and other sources that were read, or stand as they were
	Trouble string `json:"trouble,omitempty"` // the first that a site gave since the start

	// Waiting are pages that are not asked for now since pages like them led to little new, and Traps of which kinds they are.
	Waiting int    `json:"waiting"`
	Traps   []Trap `json:"traps,omitempty"`

	// Owed is what a crawl that has ended did not fetch of what sites have told of.
	Owed []Debt `json:"owed,omitempty"`

	Revisits *Revisits `json:"revisits,omitempty"` // nil where no price is paid, or none is known yet
	Truth    []Decile  `json:"truth,omitempty"`
}

// Came is how many bytes came, of everything.
func (s *Status) Came() int64 { return s.Wire + s.Listened }

// Nothing reports whether no page came, and nothing that tells of pages.
func (s *Status) Nothing() bool { return s.Fetched+s.Unchanged+s.Delivered+s.Heard == 0 }

// Revisits is what visiting pages again comes to, as it was planned last.
type Revisits struct {
	Planned   time.Time `json:"planned"`
	Took      float64   `json:"took"`   // seconds
	Price     float64   `json:"price"`  // now
	Budget    float64   `json:"budget"` // in a day, and so are the next two
	Spend     float64   `json:"spend"`  // expected
	Beside    float64   `json:"beside"` // what may be spent beside it on what sites tell, 0: any amount
	Left      float64   `json:"left"`   // of that, saved up
	Requests  float64   `json:"requests"`
	Fresh     float64   `json:"fresh"`     // share of the copies that were thought to be right then, by importance; those of sites in trouble do not count
	Unknown   int       `json:"unknown"`   // copies of sites that gave no answer then
	Freshness float64   `json:"freshness"` // that is expected for good
	Age       float64   `json:"age"`       // days for which copies will be outdated, on average
}

// Status may be called at any time, also after Run.
func (c *Crawler) Status() Status {
	r := c.run.Load()
	if r == nil {
		if s := c.last.Load(); s != nil {
			return *s
		}
		return Status{}
	}
	n := &r.count
	asked := r.Harvester.Stats() // followers' requests are among them
	s := Status{Running: true, Began: r.began,
		Requests: asked.Requests, Fetched: n.Fetched.Load(), Truncated: n.Cut.Load(), Audits: n.Audits.Load(), Again: n.Again.Load(), Unchanged: n.Unchanged.Load(), Missing: n.Missing.Load(),
		Refused: n.Refused.Load(), Faults: n.Faults.Load(), Bytes: n.Bytes.Load(), Wire: n.Wire.Load(), Listened: asked.Transported, Told: n.Told.Load(), Ignored: n.Ignored.Load(),
		Changed: n.Changed.Load(), Duplicates: n.Duplicates.Load(), New: n.New.Load(), Batches: n.Batches.Load(),
		Delivered: n.Delivered.Load(), DeliveredBytes: n.DeliveredBytes.Load(),
		InFlight: asked.Sites}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Ends, s.Sites, s.Queue, s.Busy = r.enough, len(r.sites), r.front.Len(), r.busy
	s.Followed = len(r.telling)
	s.Received = make(map[collection.Signal]collection.Reception, len(r.receptions))
	for by, n := range r.receptions {
		s.Received[by] = *n
	}
	if v := &r.revisiting; !v.at.IsZero() {
		s.Revisits = &Revisits{Planned: v.at, Took: v.took.Seconds(), Price: r.price, Budget: v.bucket.Rate, Spend: v.plan.Spend, Beside: v.beside.Rate, Left: v.beside.Balance,
			Requests: v.plan.Requests, Fresh: v.fresh, Unknown: v.unknown, Freshness: v.plan.Freshness, Age: v.plan.Age}
	}
	s.Waiting, s.Traps = r.families.waiting, r.families.traps()
	s.Heard, s.Trouble = n.Heard.Load(), r.trouble
	s.Truth, s.Owed = r.truths.table(), r.debts
	return s
}
