package doors

import (
	"context"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/manifest"
)

const (
	siteShare = 0.5 // see Content.SiteShare

	// judgedLife is how long a judgement of a caller and an archive is valid, or
	// for judgedFactor times as long as it took, if that is longer.
	judgedLife   = 10 * time.Second
	judgedFactor = 20
	judgedMost   = 1000 // callers

	// sampled is how many changes are read, at most, to estimate how many pages changed.
	sampled = 4 * protocol.MaxBatch
)

// Archives decides who is sent an archive of the whole site, and when. Any number of
// goroutines may use it.
type archives struct {
	*site
	archive  content.Archive
	snapshot *manifest.Snapshot          // counts the site's items while there is no archive; nil: unknown
	publicTo func(name, url string) bool // nil: no caller has rules of its own
	share    float64                     // see Content.SiteShare
	judged   judgements
	bursts   bursts
}

// mayRead reports whether a caller may have the archive. The archive is the same
// for everybody: a caller with its own rules in robots.txt may have it only if they
// forbid nothing that is in it. Of concurrent requests for one name, one reads the
// archives and only the others of that name wait for it.
func (a *archives) mayRead(c caller.Caller) bool {
	if c.Name == "" || a.publicTo == nil {
		return true
	}
	newest, _ := a.archive.Latest()
	now := a.now()
	a.judged.mu.Lock()
	j := a.judged.byName[c.Name]
	if j == nil || !j.counts(newest, now) {
		j = &judgement{archive: newest, at: now, done: make(chan struct{})}
		if a.judged.byName == nil || len(a.judged.byName) >= judgedMost {
			a.judged.byName = make(map[string]*judgement)
		}
		a.judged.byName[c.Name] = j
		a.judged.mu.Unlock()
		defer close(j.done)
		began := time.Now()
		j.may = a.archive.Within(func(url string) bool { return a.publicTo(c.Name, url) })
		j.took = time.Since(began)
		return j.may
	}
	a.judged.mu.Unlock()
	<-j.done
	return j.may
}

// judgements are the results of mayRead for callers with their own rules.
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

// next returns the archive of the site, and false if the changes convey as
// much at less cost: the archive is for readers that have nothing, or whose cursor is
// no longer valid, and for those to whom more than a share of the site is new (C12).
// The error is a *notReady while the archive is being made.
func (a *archives) next(ctx context.Context, s *selection, after protocol.Cursor) (protocol.Message, bool, error) {
	if !a.mayRead(s.caller) {
		return protocol.Message{}, false, nil
	}
	newest, ok := a.archive.Latest() // read first: a newer one ends the wait
	making := &notReady{why: "the archive of the whole site is being made", until: func(ctx context.Context) error { return a.archive.Wait(ctx, newest) }}
	head, floor := a.log.Head(), a.log.Floor()
	if after.Epoch != head.Epoch || after.Seq < floor.Seq || after.Seq > head.Seq {
		_, err := a.log.Read(ctx, after, 1)
		switch {
		case isRefused(err) && ok:
			return a.message(after, newest), true, nil
		case isRefused(err):
			err = making
		}
		if err != nil {
			return protocol.Message{}, false, err
		}
		head, floor = a.log.Head(), a.log.Floor()
	}
	items := float64(newest.Items)
	if !ok && a.snapshot != nil {
		items = float64(a.snapshot.Items())
	}
	most := a.share * items
	since := after
	if s.listens { // include what it was sent just now
		if since.Seq = min(after.Seq, max(a.bursts.since(after, a.now()), floor.Seq)); newest.Cursor.Seq <= after.Seq {
			since.Seq = max(since.Seq, newest.Cursor.Seq) // a reader at that cursor could have had that archive
		}
	}
	if items == 0 || float64(head.Seq)-float64(since.Seq) < most {
		return protocol.Message{}, false, nil
	}
	changed, err := a.changedAfter(ctx, since, head)
	if err != nil || changed < most {
		return protocol.Message{}, false, err
	}
	if ok && newest.Cursor.Epoch == after.Epoch && newest.Cursor.Seq > after.Seq && float64(head.Seq-newest.Cursor.Seq) < most {
		return a.message(after, newest), true, nil
	}
	if a.archive.IsDueSoon() {
		return protocol.Message{}, false, making
	}
	if now, there := a.archive.Latest(); there && now != newest {
		return protocol.Message{}, false, making // it has been finished meanwhile
	}
	return protocol.Message{}, false, nil
}

// burst is the time within which most of the site must change for a subscriber, which
// receives those changes one by one, to be sent the archive nevertheless.
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

// message returns the message with the URL of an archive.
func (a *archives) message(after protocol.Cursor, is content.Archived) protocol.Message {
	return protocol.Message{Kind: protocol.Archive, From: after, To: is.Cursor, N: is.Items,
		Body: protocol.Body{Href: a.urls.base + sitePath + "?at=" + is.Cursor.String(), Length: is.Length, Digest: is.Digest}}
}

// changedAfter returns about how many pages changed between two cursors: exactly, if
// there are few changes, and else extrapolated from the first of them.
func (a *archives) changedAfter(ctx context.Context, after, head protocol.Cursor) (float64, error) {
	urls := make(map[string]struct{})
	at := after
	for at.Seq-after.Seq < sampled && at != head {
		changes, err := a.log.Read(ctx, at, protocol.MaxBatch)
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
