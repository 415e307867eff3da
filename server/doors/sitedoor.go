package doors

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

const (
	siteShare = 0.5 // see Notifier.SiteShare

	// judgedLife is how long a judgement of a caller and an archive is valid, or
	// for judgedFactor times as long as it took, if that is longer.
	judgedLife   = 10 * time.Second
	judgedFactor = 20
	judgedMost   = 1000 // callers

	// sampled is how many changes are read, at most, to estimate how many pages changed.
	sampled = 4 * protocol.MaxBatch

	// siteRanges is how many parts of an archive one request may ask for.
	siteRanges = 4
)

// serveSite serves an archive of the whole site: the newest one, or the one at the
// cursor in the parameter at.
func (n *Notifier) serveSite(w http.ResponseWriter, r *http.Request) *web.Problem {
	q, p := web.Query(r, "at")
	if p != nil {
		return p
	}
	if q.Has("at") {
		if _, err := protocol.ParseCursor(q.Get("at")); err != nil {
			return web.BadParameter("at", err.Error())
		}
	}
	caller, p := n.callerOf(r)
	if p != nil {
		return p
	}
	if !n.mayReadArchive(caller) {
		return archiveRefused()
	}
	if strings.Count(r.Header.Get("Range"), ",") >= siteRanges || len(r.Header.Values("Range")) > 1 {
		return web.Plain(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("one request may ask for %d ranges", siteRanges))
	}
	leave, p := n.bundles.Enter("bundles and archives", limit.ClientAddress(r), bundlesAtOnce, bundlesEach)
	if p != nil {
		return p
	}
	defer leave()
	if p := n.scanning(); p != nil {
		return p
	}
	n.stats.answered(protocol.AsSite, 0, 0)
	n.Archive.ServeHTTP(metered{n.patient(w), &n.stats.form(protocol.AsSite).bytes}, r)
	return nil
}

// mayReadArchive reports whether a caller may have the archive. The archive is the same
// for everybody: a caller with its own rules in robots.txt may have it only if they
// forbid nothing that is in it. Of concurrent requests for one name, one reads the
// archives and only the others of that name wait for it.
func (n *Notifier) mayReadArchive(c caller.Caller) bool {
	if c.Name == "" || n.PublicTo == nil {
		return true
	}
	a, _ := n.Archive.Latest()
	now := n.Now()
	n.judged.mu.Lock()
	j := n.judged.byName[c.Name]
	if j == nil || !j.counts(a, now) {
		j = &judgement{archive: a, at: now, done: make(chan struct{})}
		if n.judged.byName == nil || len(n.judged.byName) >= judgedMost {
			n.judged.byName = make(map[string]*judgement)
		}
		n.judged.byName[c.Name] = j
		n.judged.mu.Unlock()
		defer close(j.done)
		began := time.Now()
		j.may = n.Archive.Within(func(url string) bool { return n.PublicTo(c.Name, url) })
		j.took = time.Since(began)
		return j.may
	}
	n.judged.mu.Unlock()
	<-j.done
	return j.may
}

// judgements are the results of mayReadArchive for callers with their own rules.
type judgements struct {
	mu     sync.Mutex
	byName map[string]*judgement
}

// A judgement is one result, valid once done is closed.
type judgement struct {
	archive content.Archived
	at      time.Time
	done    chan struct{}
	may     bool
	took    time.Duration
}

// counts reports whether a judgement, even one in progress, is valid for an archive.
func (j *judgement) counts(a content.Archived, now time.Time) bool {
	if j.archive != a || now.Before(j.at) {
		return false
	}
	select {
	case <-j.done:
		return now.Sub(j.at) <= max(judgedLife, judgedFactor*j.took)
	default:
		return true
	}
}

// nextArchive returns the archive of the site, and false if the changes say as
// much at less cost: the archive is for readers that have nothing, or whose cursor is
// no longer valid, and for those to whom more than a share of the site is new (C12).
// The error is a *notReady while the archive is being made.
func (n *Notifier) nextArchive(ctx context.Context, s *selection, after protocol.Cursor) (protocol.Message, bool, error) {
	if !n.mayReadArchive(s.caller) {
		return protocol.Message{}, false, nil
	}
	a, ok := n.Archive.Latest() // read first: a newer one ends the wait
	making := &notReady{why: "the archive of the whole site is being made", until: func(ctx context.Context) error { return n.Archive.Wait(ctx, a) }}
	head, floor := n.Log.Head(), n.Log.Floor()
	if after.Epoch != head.Epoch || after.Seq < floor.Seq || after.Seq > head.Seq {
		if !ok {
			return protocol.Message{}, false, making
		}
		return n.archiveMessage(after, a), true, nil
	}
	items := float64(a.Items)
	if !ok && n.Snapshot != nil {
		items = float64(n.Snapshot.Items())
	}
	share := n.SiteShare
	if share <= 0 {
		share = siteShare
	}
	most := share * items
	since := after
	if s.listens { // include what it was sent just now
		if since.Seq = min(after.Seq, max(n.bursts.since(after, n.Now()), floor.Seq)); a.Cursor.Seq <= after.Seq {
			since.Seq = max(since.Seq, a.Cursor.Seq) // a reader at that cursor could have had that archive
		}
	}
	if items == 0 || float64(head.Seq)-float64(since.Seq) < most {
		return protocol.Message{}, false, nil
	}
	changed, err := n.changedAfter(ctx, since, head)
	if err != nil || changed < most {
		return protocol.Message{}, false, err
	}
	if ok && a.Cursor.Epoch == after.Epoch && a.Cursor.Seq > after.Seq && float64(head.Seq-a.Cursor.Seq) < most {
		return n.archiveMessage(after, a), true, nil
	}
	if n.Archive.IsDueSoon() {
		return protocol.Message{}, false, making
	}
	if now, there := n.Archive.Latest(); there && now != a {
		return protocol.Message{}, false, making // it has been finished meanwhile
	}
	return protocol.Message{}, false, nil
}

// burst is how long a change of most of the site may take for a subscriber, who
// receives it piece by piece, to be sent the archive all the same.
const burst = 10 * time.Minute

// bursts remembers where the journal's head was.
type bursts struct {
	mu    sync.Mutex
	epoch string
	marks []burstMark // oldest first
}

// A burstMark says that the head was at seq at a time.
type burstMark struct {
	at  time.Time
	seq uint64
}

// burstMarks is the largest number of marks for one burst.
const burstMarks = 20

// note records the head when a reader of the form site has reached it.
func (b *bursts) note(at protocol.Cursor, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.marks) - 1; last >= 0 && (b.epoch != at.Epoch || now.Before(b.marks[last].at)) { // or the clock was put back
		b.marks = nil
	}
	b.epoch = at.Epoch
	if last := len(b.marks) - 1; last > 0 && now.Sub(b.marks[last-1].at) < burst/burstMarks {
		b.marks[last] = burstMark{now, at.Seq}
	} else {
		b.marks = append(b.marks, burstMark{now, at.Seq})
	}
	b.forget(now)
}

// since returns the head of one burst ago, or the oldest one recorded after that. Without
// a record it is the reader's own cursor.
func (b *bursts) since(after protocol.Cursor, now time.Time) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch != after.Epoch || len(b.marks) == 0 {
		b.epoch, b.marks = after.Epoch, []burstMark{{now, after.Seq}}
	}
	b.forget(now)
	return b.marks[0].seq
}

// forget leaves only one mark from before the last burst. mu is held.
func (b *bursts) forget(now time.Time) {
	for len(b.marks) > 1 && now.Sub(b.marks[1].at) >= burst {
		b.marks = b.marks[1:]
	}
}

// archiveMessage returns the message with the URL of an archive.
func (n *Notifier) archiveMessage(after protocol.Cursor, a content.Archived) protocol.Message {
	return protocol.Message{Kind: protocol.Archive, From: after, To: a.Cursor, N: a.Items,
		Body: protocol.Body{Href: n.Base + sitePath + "?at=" + a.Cursor.String(), Length: a.Length, Digest: a.Digest}}
}

// changedAfter returns about how many pages changed between two cursors: exactly, if
// there are few changes, and else extrapolated from the first of them.
func (n *Notifier) changedAfter(ctx context.Context, after, head protocol.Cursor) (float64, error) {
	urls := make(map[string]struct{})
	at := after
	for at.Seq-after.Seq < sampled && at != head {
		changes, err := n.Log.Read(ctx, at, protocol.MaxBatch)
		if err != nil {
			return 0, err
		}
		if len(changes) == 0 {
			break
		}
		for i := range changes {
			urls[changes[i].Item.URL] = struct{}{}
		}
		at.Seq = changes[len(changes)-1].Seq
	}
	if at.Seq == after.Seq {
		return 0, nil
	}
	all := max(head.Seq, at.Seq) - after.Seq
	return float64(len(urls)) * float64(all) / float64(at.Seq-after.Seq), nil
}
