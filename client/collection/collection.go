package collection

import (
	"context"
	"iter"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/client/frontier"
)

// Never is the At of what is not to be asked for.
var Never = time.UnixMilli(1<<62 - 1)

// Options says how a collection is kept. The zero value keeps no contents.
type Options struct {
	Contents Contents // none, WARC, a mirror directory, or both
	Coding   string   // of WARC records: "", "gzip" or "zstd"
	MaxWARC  int64    // rotate after so many bytes; 0 means 1 GiB
	NoLinks  bool     // do not keep links

	Policy   fresh.Policy               // nil means fresh.Thesis{}
	Strategy frontier.Strategy          // nil means breadth-first
	Quality  func(*Page, *Site) float64 // V14: intrinsic quality, 0..1; nil: all alike

	ReadOnly bool
	Wait     time.Duration // for a collection that another process holds
	Now      func() time.Time
}

// Contents says where bodies go.
type Contents uint8

const (
	WARC Contents = 1 << iota
	Mirror
)

// A Turn is what a turn of the crawler learned, taken in as one transaction.
type Turn struct {
	Visits  []Visit
	Finds   []Find
	Sources []Source // new ones (ID 0), and what became of those that were asked
	Sites   []Site   // Delay, Soft404, Fault, Quiet, Trust and Shape are taken over
}

// Committed says what a Turn came to.
type Committed struct {
	Visited []Visited        // as the Visits
	New     []Page           // pages that were not known
	Queue   []frontier.Entry // ready now: for the frontier's Add
}

// A Visited is where a page stands after a visit.
type Visited struct {
	Page                Page
	Changed             bool // other content than before
	Duplicate           bool // its links were ignored
	Matched, Mismatched bool // with what was told
	Gone                bool
}

// Applied says what a Step came to.
type Applied struct {
	Owed, Moved, Gone, Known, Foreign, Held int
	Queue                                   []frontier.Entry
}

// A Collection is safe for use by many goroutines; it has one writer at a
// time, which Commit and Apply wait for.
type Collection struct{}

func Open(dir string, o *Options) (*Collection, error) { panic("unbuilt") }
func (c *Collection) Close() error                     { panic("unbuilt") }

// Commit takes a turn in.
func (c *Collection) Commit(t *Turn) (Committed, error) { panic("unbuilt") }

// Apply takes in a step that a source told (invariant 3: data before cursor).
func (c *Collection) Apply(source uint64, step client.Step, by Signal) (Applied, error) {
	panic("unbuilt")
}

func (c *Collection) Page(url string) (Page, bool, error)                 { panic("unbuilt") }
func (c *Collection) PageByID(id frontier.PageID) (Page, bool, error)     { panic("unbuilt") }
func (c *Collection) PagesByID(ids []frontier.PageID) ([]Page, error)     { panic("unbuilt") }
func (c *Collection) Pages(ctx context.Context) iter.Seq2[Page, error]    { panic("unbuilt") }
func (c *Collection) Site(origin string) (Site, bool)                     { panic("unbuilt") }
func (c *Collection) SiteByID(id frontier.SiteID) (Site, bool)            { panic("unbuilt") }
func (c *Collection) Sites() iter.Seq[Site]                               { panic("unbuilt") }
func (c *Collection) Sources(site frontier.SiteID) ([]Source, error)      // 0: of all sites { panic("unbuilt") }
func (c *Collection) Links(id frontier.PageID) ([]frontier.PageID, error) { panic("unbuilt") }
func (c *Collection) Queue() frontier.Store                               { panic("unbuilt") }
