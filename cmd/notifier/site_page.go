package main

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

// How many rows the page has at most.
const (
	maxNeedRows     = 50
	maxListenerRows = 50
	maxChangeRows   = 20
	maxSenderRows   = 50
	maxHeldRows     = 20
)

// A sitePage is the page about a site, for those who run it.
type sitePage struct {
	told      *told // nil: the log is not shared
	base      string
	journal   *server.Journal
	publisher *server.Publisher
	notifier  *doors.Notifier
	forms     *deliveries
	senders   *senders
	rules     siteflags.Rules
	holder    *server.Holder // does what the page's buttons say
	costs     *crawlerCosts  // nil without --access-log
}

// page returns the live page, whose streams end when done is closed.
func (s *sitePage) page(done <-chan struct{}) *admin.Page {
	sections := []admin.Section{{ID: "needs", Title: "Needs a person", Alert: true}, {ID: "site", Title: "The site"}, {ID: "listeners", Title: "Who listens"},
		{ID: "changes", Title: "Last changes"}, {ID: "senders", Title: "Senders"}, {ID: "outputs", Title: "Files"}, {ID: "delivery", Title: "Delivery"},
		{ID: "crawlers", Title: "Crawlers this week"}}
	return &admin.Page{Title: s.base, Subtitle: "Parley notifier", Sections: sections, Done: done, Read: func(ctx context.Context) ([]g.Node, error) {
		v, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		return []g.Node{showNeeds(v), showSite(v), showListeners(v), showChanges(v), showSenders(v), showOutputs(v), showDelivery(v), showCrawlers(v)}, nil
	}}
}

// siteView is what the page shows.
type siteView struct {
	Needs  []need
	Status server.Status
	Doors  doors.Stats
	Facts  []fact

	Held      []string // paths
	Listeners []listenerRow
	Unlisted  int    // further listeners
	Furthest  uint64 // changes that a listener is behind, at most
	Changes   []changeRow
	Senders   []senderRow

	MoreSenders int // that are not in Senders

	Rechecks, Purges bool // there is something to check, and something to discard
	Costs            *weekOfCrawlers
}

// A need is something that a person has to do. Without a task there is no button for it.
type need struct {
	siteflags.Need
	Seen         any // what the task is about, as shown: a number of pages, or the state of robots.txt
	Sure, Button string
	RetryAt      time.Time // when it is tried again
}

type listenerRow struct {
	doors.Listener
	Behind  uint64 // changes
	Renewed bool   // its cursor is of another epoch
}

type changeRow struct {
	protocol.Change
	Page, Was    string  // paths; Was of a move
	Significance float64 // of 0 to 1; below 0: unknown
	Reached      int     // listeners
}

// A senderRow is one receiver of notices, which does not listen itself.
type senderRow struct {
	Kind, Name string
	Done       string    // what it has accepted, in total
	Waiting    string    // what it has not
	LastAt     time.Time // the last success
	Trouble    string
	RetryAt    time.Time
	Stranger   bool // a subscriber of the site's hub: its own operator must mend what fails
}

// read reads the present state.
func (s *sitePage) read(ctx context.Context) (*siteView, error) {
	v := &siteView{Status: s.publisher.Status(), Doors: s.notifier.Stats(),
		Rechecks: s.forms.Evidence != nil, Purges: s.forms.Versions != nil || s.forms.Archive != nil}
	delivery := s.forms.status(s.notifier)
	v.Facts = delivery.facts()
	told, err := s.senders.status()
	if err != nil {
		return nil, err
	}
	v.Senders = told.rows()
	s.listeners(v)
	if err := s.changes(ctx, v); err != nil {
		return nil, err
	}
	if v.Status.Held > 0 {
		if v.Held, err = s.held(); err != nil {
			return nil, err
		}
	}
	v.Costs = s.costs.now()
	v.Needs = s.needs(v, robotsOf(s.rules), delivery)
	v.Needs = v.Needs[:min(len(v.Needs), maxNeedRows)]
	v.MoreSenders = max(0, len(v.Senders)-maxSenderRows)
	v.Senders = v.Senders[:len(v.Senders)-v.MoreSenders]
	v.Unlisted = max(0, len(v.Listeners)-maxListenerRows)
	v.Listeners = v.Listeners[:len(v.Listeners)-v.Unlisted]
	return v, nil
}

// needs returns what a person has to do.
func (s *sitePage) needs(v *siteView, robots siteflags.RobotsStatus, delivery deliveryStatus) (list []need) {
	for _, n := range siteflags.Needs(v.Status, robots, delivery.Evidence) {
		switch n.Task {
		case "accept-deletions":
			list = append(list, need{Need: n, Seen: v.Status.Held, Sure: "They were deleted on purpose", Button: "Announce the deletions"})
		case "accept-refusals":
			list = append(list, need{Need: n, Seen: delivery.Evidence.Suspect, Sure: "They are refused on purpose", Button: "Announce them as deleted"})
		default:
			list = append(list, need{Need: n})
		}
	}
	add := func(about, text string) { list = append(list, need{Need: siteflags.Need{About: about, Text: text}}) }
	if robots.Robots != "" && !robots.Lost {
		list = append(list, need{Need: siteflags.Need{About: "robots.txt", Text: "robots.txt " + robots.Robots, Task: "robots-now"},
			Seen: robots.Robots, Sure: "The new rules are right", Button: "Apply them now"})
	}
	for _, path := range slices.Sorted(maps.Keys(v.Status.Last.Unreadable)) {
		add("unreadable", path+": "+v.Status.Last.Unreadable[path])
	}
	if e := delivery.Evidence; e != nil && e.Inside != "" && !e.Trusted && !s.forms.Evidence.Meta {
		add("evidence", "the web server answers this machine from a loopback or private address, such as for "+e.Inside+": that proves nothing about other clients. "+
			"No content of pages is delivered without --ask-via or --trust-docroot")
	}
	if delivery.Versions != nil && delivery.Versions.Trouble {
		add("versions", "new versions of pages cannot be written now: look for a full disk, or a directory that may not be written")
	}
	for _, r := range v.Senders {
		if r.Trouble != "" && !r.Stranger {
			list = append(list, need{Need: siteflags.Need{About: r.Kind, Text: r.Name + ": " + r.Trouble}, RetryAt: r.RetryAt})
		}
	}
	return list
}

func (s *sitePage) listeners(v *siteView) {
	for _, l := range s.notifier.Listeners() {
		r := listenerRow{Listener: l, Renewed: l.Cursor.Epoch != v.Status.Head.Epoch}
		if !r.Renewed && l.Cursor.Seq < v.Status.Head.Seq {
			r.Behind = v.Status.Head.Seq - l.Cursor.Seq
		}
		v.Furthest = max(v.Furthest, r.Behind)
		v.Listeners = append(v.Listeners, r)
	}
}

// changes reads the last changes, newest first, and counts the listeners that each has reached.
func (s *sitePage) changes(ctx context.Context, v *siteView) error {
	after := v.Status.Head
	if after.IsZero() {
		return nil
	}
	after.Seq -= min(after.Seq, maxChangeRows)
	if floor := s.journal.Floor(); floor.Epoch == after.Epoch {
		after.Seq = max(after.Seq, floor.Seq)
	}
	list, err := s.journal.Read(ctx, after, maxChangeRows)
	switch {
	case errors.Is(err, protocol.ErrEpoch), errors.Is(err, protocol.ErrTooOld):
		return nil // a new epoch began in this moment
	case err != nil:
		return err
	}
	for _, c := range slices.Backward(list) {
		r := changeRow{Change: c, Page: s.path(c.Item.URL), Was: s.path(c.From), Significance: -1}
		if share, known := c.Significance.Share(); known {
			r.Significance = share
		}
		for _, l := range v.Listeners {
			if !l.Renewed && l.Cursor.Seq >= c.Seq {
				r.Reached++
			}
		}
		v.Changes = append(v.Changes, r)
	}
	return nil
}

// held returns the first pages whose deletion is not announced yet.
func (s *sitePage) held() (paths []string, err error) {
	view, err := s.journal.View()
	if err != nil {
		return nil, err
	}
	defer view.Close()
	for e, err := range view.Held() {
		if err != nil {
			return nil, err
		}
		if paths = append(paths, s.path(e.Item.URL)); len(paths) == maxHeldRows {
			break
		}
	}
	return paths, nil
}

// path returns a URL of the site without its origin, which all have.
func (s *sitePage) path(url string) string { return strings.TrimPrefix(url, protocol.Origin(s.base)) }

// rows returns all receivers of notices.
func (t tellersStatus) rows() (list []senderRow) {
	if t.IndexNow != nil {
		for _, e := range t.IndexNow.Engines {
			list = append(list, senderRow{Kind: "IndexNow", Name: e.Name, Done: admin.Many(e.Accepted, "URL", "URLs"), Waiting: admin.Many(e.Pending, "URL", "URLs"),
				LastAt: e.AcceptedAt, Trouble: e.Trouble, RetryAt: e.RetryAt})
		}
	}
	for _, p := range t.WebSub {
		r := senderRow{Kind: "WebSub", Name: p.Hub + " for " + p.Topic, Done: admin.Many(p.Pings, "ping", "pings"), Waiting: "nothing",
			LastAt: p.PingedAt, Trouble: p.Trouble, RetryAt: p.RetryAt}
		if p.Owed {
			r.Waiting = "a ping"
		}
		list = append(list, r)
	}
	for _, h := range t.Hooks {
		list = append(list, senderRow{Kind: h.Kind, Name: h.Name, Done: admin.Many(h.Changes, "change", "changes"), Waiting: admin.Many(h.Behind, "change", "changes"),
			LastAt: h.DeliveredAt, Trouble: h.Trouble, RetryAt: h.RetryAt})
	}
	if t.Hub != nil {
		for _, topic := range t.Hub.Topics {
			list = append(list, senderRow{Kind: "hub", Name: topic.URL, Done: admin.Many(topic.Subscribers, "subscriber", "subscribers"), Trouble: topic.Trouble})
		}
		for _, sub := range t.Hub.Subscriptions {
			host := "a subscriber"
			if u, err := url.Parse(sub.Callback); err == nil { // the rest of its callback may be secret
				host = u.Host
			}
			list = append(list, senderRow{Kind: "hub", Name: host + " for " + sub.Topic, Done: admin.Many(sub.Deliveries, "delivery", "deliveries"),
				LastAt: sub.DeliveredAt, Trouble: sub.Trouble, RetryAt: sub.RetryAt, Stranger: true})
		}
	}
	return list
}
