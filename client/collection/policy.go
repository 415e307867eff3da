package collection

import (
	"encoding/json"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// policyKey is the key in the meta bucket of the last revisit policy.
var policyKey = []byte("policy")

// A keptPolicy is the stored policy; one of Priced and Thesis is set.
type keptPolicy struct {
	At     time.Time
	Priced *fresh.Priced `json:",omitempty"` // with the price
	Thesis *fresh.Thesis `json:",omitempty"`
}

// KeepPolicy stores the present policy with its price, for queries while no crawler runs, and as the first
// policy of the next crawler. A policy of another kind than fresh.Priced and fresh.Thesis is not stored.
func (c *Collection) KeepPolicy() error {
	if c.opts.ReadOnly {
		return nil
	}
	k := keptPolicy{At: c.opts.Now()}
	switch p := c.Policy().(type) {
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

// KeptPolicy returns the policy stored last, and when it was stored; nil if there is none. Nothing depends
// on it, so a damaged record counts as none.
func (c *Collection) KeptPolicy() (p fresh.Policy, at time.Time) {
	err := c.reading(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		raw, ok := record.Unseal(policyKey, meta.Get(policyKey))
		var k keptPolicy
		if !ok || json.Unmarshal(raw, &k) != nil {
			return nil
		}
		switch at = k.At; {
		case k.Priced != nil:
			p = *k.Priced
		case k.Thesis != nil:
			p = *k.Thesis
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}
	}
	return p, at
}

func orThesis(p fresh.Policy) fresh.Policy {
	if p == nil {
		return fresh.Thesis{}
	}
	return p
}
