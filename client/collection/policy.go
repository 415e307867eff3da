package collection

import (
	"context"
	"encoding/json"
	"iter"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// Revisits decide when a collection's pages are fetched again, by its revisit policy. They are safe for concurrent use.
type Revisits struct {
	c      *Collection
	policy atomic.Pointer[fresh.Policy]
}

// Revisits returns what decides about revisits.
func (c *Collection) Revisits() *Revisits { return &c.revisits }

// policyKey is the key in the meta bucket of the last revisit policy.
var policyKey = []byte("policy")

// A keptPolicy is the stored policy; one of Priced and Thesis is set.
type keptPolicy struct {
	At     time.Time
	Priced *fresh.Priced `json:",omitempty"` // with the price
	Thesis *fresh.Thesis `json:",omitempty"`
	Left   fresh.Bucket  `json:",omitzero"` // of Priced
}

// Aging reports whether the policy alone decides when a page is fetched next: it is Held, and no failure,
// mismatch, missing body or person's request is pending.
func (r *Revisits) Aging(p *Page) bool {
	return p.State == Held && p.Visits > 0 && p.Missed == 0 && p.Fails == 0 && p.missing.IsZero() &&
		!(p.Told && p.Signal == ByPerson) && (r.c.sinks.store.None || p.Stored.File != "")
}

// Pages yields all pages as [Collection.Pages] does, each until the next one, and without its title, type, language and validators,
// and the texts about it: a policy needs none of them.
func (r *Revisits) Pages(ctx context.Context) iter.Seq2[*Page, error] { return pagesOf(ctx, r.c, true) }

// Believed returns a page as a policy sees it, with the evidence from its site's manifest not mentioning a change.
func (r *Revisits) Believed(p *Page, s *Site) fresh.Page {
	b := fresh.Page{History: p.History, Importance: r.c.opts.Quality(p, s), Length: p.Length, Site: s.Belief, Listed: p.Listed, Directory: fresh.Directory(p.URL)}
	b.Listen()
	return b
}

// Policy returns the present revisit policy.
func (r *Revisits) Policy() fresh.Policy { return *r.policy.Load() }

// SetPolicy replaces the revisit policy. Visits decided before stand until they are due, or the page is planned again.
func (r *Revisits) SetPolicy(p fresh.Policy) { r.policy.Store(&p) }

// Keep stores the present policy with its price and what is left of its budget, for queries while no crawler runs, and as the first
// policy of the next crawler. A policy of another kind than fresh.Priced and fresh.Thesis is not stored.
func (r *Revisits) Keep(left fresh.Bucket) error {
	c := r.c
	if c.opts.ReadOnly {
		return nil
	}
	k := keptPolicy{At: c.opts.Now(), Left: left}
	switch p := r.Policy().(type) {
	case fresh.Priced:
		k.Priced = &p
	case fresh.Thesis:
		k.Thesis = &p
	default:
		return nil
	}
	raw, err := json.Marshal(k)
	if err != nil { // a weight is NaN
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return boltfile.RecoverDamage(func() error {
		return c.db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(metaBucket).Put(policyKey, record.Seal(raw, policyKey, 0))
		})
	})
}

// Kept returns the policy stored last, what was left of its budget, and when it was stored; nil if there is none. Nothing depends
// on it, so a damaged record counts as none.
func (r *Revisits) Kept() (p fresh.Policy, left fresh.Bucket, at time.Time) {
	err := r.c.reading(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		raw, ok := record.Unseal(policyKey, meta.Get(policyKey))
		var k keptPolicy
		if !ok || json.Unmarshal(raw, &k) != nil {
			return nil
		}
		switch at, left = k.At, k.Left; {
		case k.Priced != nil:
			p = *k.Priced
		case k.Thesis != nil:
			p = *k.Thesis
		}
		return nil
	})
	if err != nil {
		return nil, fresh.Bucket{}, time.Time{}
	}
	return p, left, at
}
