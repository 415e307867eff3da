package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

const (
	siteShare = 0.5 // see Notifier.SiteShare

	// judgedLife is how long it counts what was found of a caller and an
	// archive, or as long as lets the finding take a twentieth.
	judgedLife   = 10 * time.Second
	judgedFactor = 20
	judgedMost   = 1000 // callers

	// sampled is how many changes are looked at, at most, to tell how many
	// pages changed.
	sampled = 4 * protocol.MaxBatch

	// siteRanges is how many parts of an archive one request may ask for.
	siteRanges = 4
)

// serveSite hands over an archive of the whole site: the newest, or with the
// parameter at the one that stands there.
func (n *Notifier) serveSite(w http.ResponseWriter, r *http.Request) *problem {
	q, p := query(r, "at")
	if p != nil {
		return p
	}
	if q.Has("at") {
		if _, err := protocol.ParseCursor(q.Get("at")); err != nil {
			return badParameter("at", err.Error())
		}
	}
	caller, p := n.callerOf(r)
	if p != nil {
		return p
	}
	if !n.mayHaveSite(caller) {
		return notTheSite()
	}
	if strings.Count(r.Header.Get("Range"), ",") >= siteRanges || len(r.Header.Values("Range")) > 1 {
		return plainProblem(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("one request may ask for %d ranges", siteRanges))
	}
	leave, p := n.bundles.enter("bundles and archives", clientAddress(r), bundlesAtOnce, bundlesEach)
	if p != nil {
		return p
	}
	defer leave()
	if p := n.scanning(); p != nil {
		return p
	}
	n.stats.answered(protocol.AsSite, 0, 0)
	n.Archive.ServeHTTP(metered{patient{w, n}, &n.stats.form(protocol.AsSite).bytes}, r)
	return nil
}

// Refuse answers a request as RFC 9457 has it. It is for handlers that stand
// behind a Notifier, such as an [Archive]. With retry it says when to come again.
func Refuse(w http.ResponseWriter, r *http.Request, status int, detail string, retry time.Duration) {
	p := plainProblem(status, detail)
	p.retry = retry
	p.write(w, r)
}

// mayHaveSite reports whether a caller may have the archive. It is the same
// for everybody: who has rules of his own in robots.txt may have it only if
// they forbid nothing that is in it. One of those who ask for the same name reads the
// archives, the others wait for him, and nobody else does.
func (n *Notifier) mayHaveSite(c Caller) bool {
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

// judgements are what was found of callers with rules of their own.
type judgements struct {
	mu     sync.Mutex
	byName map[string]*judgement
}

// A judgement is what was found, once done is closed.
type judgement struct {
	archive Archived
	at      time.Time
	done    chan struct{}
	may     bool
	took    time.Duration
}

// counts reports whether a judgement, or one that is being made, is good for an archive.
func (j *judgement) counts(a Archived, now time.Time) bool {
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

// nextArchive returns the archive of the site, and false where changes say
// as much at less cost: the archive is for those who have nothing, or whose
// cursor says nothing any more, and for those to whom more than a share of the
// site is new (C12). The error is a *notYet while it is being made.
func (n *Notifier) nextArchive(ctx context.Context, s *selection, after protocol.Cursor) (protocol.Message, bool, error) {
	if !n.mayHaveSite(s.caller) {
		return protocol.Message{}, false, nil
	}
	a, ok := n.Archive.Latest() // looked at first: one that comes later ends the wait
	making := &notYet{why: "the archive of the whole site is being made", until: func(ctx context.Context) error { return n.Archive.Wait(ctx, a) }}
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
	if s.listens { // what it was told just now is part of the same
		if since.Seq = min(after.Seq, max(n.bursts.since(after, n.Now()), floor.Seq)); a.Cursor.Seq <= after.Seq {
			since.Seq = max(since.Seq, a.Cursor.Seq) // a reader who stands there had that one to take
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
	if n.Archive.Coming() {
		return protocol.Message{}, false, making
	}
	if now, there := n.Archive.Latest(); there && now != a {
		return protocol.Message{}, false, making // it has come meanwhile
	}
	return protocol.Message{}, false, nil
}

// burst is how long a change of most of the site may take for those who are
// told of it as it happens to be told of the archive.
const burst = 10 * time.Minute

// bursts remembers where the journal stood.
type bursts struct {
	mu    sync.Mutex
	epoch string
	marks []burstMark // oldest first
}

// A burstMark says that the journal stood there at a time.
type burstMark struct {
	at  time.Time
	seq uint64
}

// burstMarks is how many marks there are of a burst, at most.
const burstMarks = 20

// note remembers that the journal stood there when somebody who listens had been told all.
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

// since returns where the journal stood a burst ago, or when that was noted
// first. Where nothing was, it is where a reader stands.
func (b *bursts) since(after protocol.Cursor, now time.Time) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch != after.Epoch || len(b.marks) == 0 {
		b.epoch, b.marks = after.Epoch, []burstMark{{now, after.Seq}}
	}
	b.forget(now)
	return b.marks[0].seq
}

// forget leaves one mark of before the last burst. mu is held.
func (b *bursts) forget(now time.Time) {
	for len(b.marks) > 1 && now.Sub(b.marks[1].at) >= burst {
		b.marks = b.marks[1:]
	}
}

// archiveMessage says where an archive is.
func (n *Notifier) archiveMessage(after protocol.Cursor, a Archived) protocol.Message {
	return protocol.Message{Kind: protocol.Archive, From: after, To: a.Cursor, N: a.Items,
		Body: protocol.Body{Href: n.Base + sitePath + "?at=" + a.Cursor.String(), Length: a.Length, Digest: a.Digest}}
}

// changedAfter is about how many pages changed between two cursors: exactly, if
// there are few changes, and else as the first of them say.
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
