package holding

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Body is a file on its way into the holding. It is not safe for
// concurrent use. Give it to Settle in a Result, or Discard it.
type Body struct {
	tree *tree
	name string
	f    *os.File
	hash hash.Hash
	n    int64
	err  error
}

// NewBody makes an empty body, in a file beside the copy.
func (c *Holding) NewBody() (*Body, error) {
	name, f, err := c.tree.create()
	if err != nil {
		return nil, fmt.Errorf("create body: %w", err)
	}
	return &Body{tree: c.tree, name: name, f: f, hash: sha256.New()}, nil
}

// Write appends to the body.
func (b *Body) Write(p []byte) (int, error) {
	n, err := b.f.Write(p)
	b.hash.Write(p[:n])
	b.n += int64(n)
	b.err = err
	return n, err
}

// Err returns why the last Write failed, nil if it did not: the disk is full
// then, and no fault of the site's.
func (b *Body) Err() error { return b.err }

// Len returns the number of bytes written.
func (b *Body) Len() int64 { return b.n }

// Digest returns the digest of what was written.
func (b *Body) Digest() (d protocol.Digest) {
	b.hash.Sum(d[:0])
	return d
}

// Discard removes the body.
func (b *Body) Discard() {
	b.f.Close()
	b.tree.discard(b.name)
}

// finish makes the body durable.
func (b *Body) finish() error { return errors.Join(b.f.Sync(), b.f.Close()) }

// An Answer says what asking for a page gave.
type Answer int

const (
	Failed    Answer = iota // none, or one that will pass: 5xx, 429, cut short
	Fetched                 // 200, with a body
	Unchanged               // 304
	Gone                    // 404 or 410
	Refused                 // another answer that brings no body: a redirect, 403
	TooLarge                // beyond the limit: not asked for again until the site says that it changed
	Forbidden               // not asked for: robots.txt forbids it
)

// A Result is what became of a Debt.
type Result struct {
	Debt   Debt // as Next gave it
	Answer Answer
	Status int   // of HTTP, 0 if there was none
	Body   *Body // for Fetched, else nil
	Type   string

	ETag, LastModified string // validators, empty if there were none

	// Retry is the earliest time to ask again that the site named, for Failed. Zero leaves it to the holding.
	Retry time.Time
}

// A Settled says where a page stands after a Result.
type Settled struct {
	Page          // as it is now
	Gone     bool // the site took it back meanwhile: nothing was kept
	Stored   bool // the file is new
	Fresh    bool // what is held is what the site says, as far as is known
	Mismatch bool // the answer is not what the site says the page is
	Demoted  bool // it was the last of so many that the site's digests are not waited for any more
}

// How long to wait before asking again.
var (
	missWaits    = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute}
	refusalWaits = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}
)

const (
	firstFailWait  = time.Second // doubled each time
	lastFailWait   = time.Hour
	lastSilentWait = 5 * time.Minute // for no answer at all: seldom the fault of the page
)

// demoteAfter is how many pages in a row must differ from their claims, none
// ever having matched, before a site's digests are no longer waited for.
const demoteAfter = 20

// Settle takes in what became of debts, in one transaction, and returns where
// each page stands. Bodies are made durable first and stand at their names
// when Settle returns. Answers may be older than what the site has told
// since: a page that is gone stays gone, a newer claim stays owed.
//
// A body that is not what the site says counts as a newer change: it is kept,
// and asked for again at most three times, unless the site names its digest
// in the meantime. A site whose digests have never matched is not asked again.
func (c *Holding) Settle(results []Result) ([]Settled, error) {
	out, err := c.settle(results)
	c.view.Lock()
	for _, r := range results {
		delete(c.taken, r.Debt.URL)
	}
	c.view.Unlock()
	if err != nil {
		return nil, fmt.Errorf("settle debts: %w", err)
	}
	return out, nil
}

func (c *Holding) settle(results []Result) ([]Settled, error) {
	err := finishAll(results)
	var out []Settled
	used := map[*Body]bool{}
	if err == nil {
		err = c.update(func(u *update) error {
			for _, r := range results {
				s, err := u.settle(r)
				if err != nil {
					return fmt.Errorf("%s: %w", r.Debt.URL, err)
				}
				used[r.Body] = s.Stored
				out = append(out, s)
			}
			return nil
		})
	}
	committed := err == nil || errors.Is(err, errBroken)
	for _, r := range results {
		// What failed after the commit is done again by Open: keep it for that.
		if r.Body != nil && !(committed && used[r.Body]) {
			c.tree.discard(r.Body.name)
		}
	}
	return out, err
}

// finishAll makes bodies durable, a few at once: the disk does that in about
// the time of one.
func finishAll(results []Result) error {
	var (
		wg   sync.WaitGroup
		gate = make(chan struct{}, 8)
		errs = make([]error, len(results))
	)
	for i, r := range results {
		if r.Body == nil {
			continue
		}
		gate <- struct{}{}
		wg.Go(func() {
			errs[i] = r.Body.finish()
			<-gate
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (u *update) settle(r Result) (Settled, error) {
	url := r.Debt.URL
	old, err := u.get(url)
	if err != nil {
		return Settled{}, err
	}
	if old == nil {
		return Settled{Page: r.Debt.Page, Gone: true}, nil
	}
	s := Settled{Page: *old}
	p := &s.Page
	if r.Answer != Forbidden {
		p.Status, p.Fetched = r.Status, u.now
	}
	if r.Answer == Unchanged && p.Path == "" {
		r.Answer = Refused // nothing is held that could be unchanged
	}
	// The claim may have changed after the request was made.
	asked := old.Item.Equal(r.Debt.Item)
	switch r.Answer {
	case Fetched:
		if s.Stored, err = u.store(p, r); err != nil {
			return Settled{}, err
		}
		u.pay(&s, asked)
	case Unchanged:
		u.pay(&s, asked)
	case TooLarge:
		if asked {
			p.Due = time.Time{}
		}
	case Forbidden:
		p.Due = Parked
	default:
		if asked {
			p.Due = u.again(p, r)
		}
	}
	return s, u.put(url, old, p)
}

// store puts a body in the place of what is held, and reports whether it
// differs from that.
func (u *update) store(p *Page, r Result) (bool, error) {
	digest := r.Body.Digest()
	p.ETag, p.LastModified = short(r.ETag), short(r.LastModified)
	if p.Path != "" && p.Held == digest {
		return false, nil
	}
	if p.Item.Type == "" {
		p.Item.Type = short(r.Type)
	}
	name, err := u.claim(p.Item.URL, p.Item.Type)
	if err != nil {
		return false, err
	}
	if p.Path != name {
		if err := u.release(p.Path); err != nil {
			return false, err
		}
	}
	p.Path, p.Held, p.Length = name, digest, r.Body.Len()
	u.place(name, r.Body.name)
	return true, nil
}

func short(s string) string {
	if len(s) > maxField {
		return ""
	}
	return s
}

// pay strikes out a debt after an answer, if it was the one asked for.
func (u *update) pay(s *Settled, asked bool) {
	p, n := &s.Page, &u.meta.Counts
	p.fails = 0
	if p.Item.Digest.IsZero() {
		if asked {
			p.Due, s.Fresh = time.Time{}, true
		}
		return
	}
	if p.Held == p.Item.Digest {
		p.Due, p.misses, s.Fresh = time.Time{}, 0, true
		n.Matched++
		n.MissRow, n.Demoted = 0, false
		return
	}
	if !asked {
		return // a newer claim: still owed
	}
	n.Mismatched++
	if n.Demoted { // the site's validators are all there is to go by
		p.Due, p.misses, s.Fresh = time.Time{}, 0, true
		return
	}
	s.Mismatch = true
	if p.misses == 0 {
		n.MissRow++
	}
	if n.Matched == 0 && n.MissRow >= demoteAfter {
		n.Demoted, s.Demoted = true, true
	}
	if n.Demoted || p.misses >= len(missWaits) {
		p.Due, p.misses = time.Time{}, 0
		return
	}
	p.Due = u.now.Add(missWaits[p.misses])
	p.misses++
}

// again returns when to ask again after an answer that brought nothing.
func (u *update) again(p *Page, r Result) time.Time {
	var wait time.Duration
	switch {
	case r.Answer == Failed && r.Status == 0:
		wait = min(firstFailWait<<min(p.fails, 20), lastSilentWait)
	case r.Answer == Failed:
		wait = min(firstFailWait<<min(p.fails, 20), lastFailWait)
	default:
		wait = refusalWaits[min(p.fails, len(refusalWaits)-1)]
	}
	p.fails++
	if at := u.now.Add(wait); at.After(r.Retry) {
		return at
	}
	return r.Retry
}

// Unpark makes due what robots.txt forbade, and returns how many pages that is.
func (c *Holding) Unpark() (int, error) {
	const most = 1000
	total := 0
	for n := most; n == most; {
		err := c.update(func(u *update) error {
			var urls []string
			parked := debtKey(Parked, "")[:8]
			cur := u.debts.Cursor()
			for k, _ := cur.Seek(parked); bytes.HasPrefix(k, parked) && len(urls) < most; k, _ = cur.Next() {
				_, url := splitDebt(k)
				urls = append(urls, url)
			}
			n = len(urls)
			for _, url := range urls {
				old, err := u.get(url)
				if err != nil {
					return err
				}
				if old == nil {
					return fmt.Errorf("debt of a page that is not there: %s", url)
				}
				p := *old
				p.Due = u.now
				if err := u.put(url, old, &p); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return total, fmt.Errorf("unpark pages: %w", err)
		}
		total += n
	}
	return total, nil
}

// Tidy removes files that no page has, which a lost state left behind. It
// does so once, when nothing is owed any more, and is free of cost otherwise.
func (c *Holding) Tidy() error {
	c.view.Lock()
	wanted := c.meta.Strays && c.meta.Counts.Owed == 0 && c.meta.Counts.Held > 0
	c.view.Unlock()
	if !wanted {
		return nil
	}
	err := c.update(func(u *update) error {
		u.meta.Strays = false
		return u.tree.walk(func(name string) {
			if u.paths.Get(u.key(name)) == nil {
				u.place(name, "")
			}
		})
	})
	if err != nil {
		return fmt.Errorf("tidy directory: %w", err)
	}
	return nil
}
