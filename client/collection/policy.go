package collection

import (
	"encoding/json"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/fresh"
	"github.com/parleyweb/parley/internal/boltfile"
)

// policyKey is where the meta bucket has by what policy revisits were decided last.
var policyKey = []byte("policy")

// A keptPolicy is what the state remembers of a policy. It is of one kind.
type keptPolicy struct {
	At     time.Time
	Priced *fresh.Priced `json:",omitempty"` // with the price
	Thesis *fresh.Thesis `json:",omitempty"`
}

// KeepPolicy has the state remember the policy that decides now, and its price: for those
// who ask when no crawler runs, and for the next one to begin with. A policy
// of another kind than fresh.Priced and fresh.Thesis is not remembered.
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
	if err != nil { // a weight that is no number
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return boltfile.Guard(func() error {
		return c.db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(metaBucket).Put(policyKey, seal(raw, policyKey, 0))
		})
	})
}

// KeptPolicy returns the policy that decided last when a crawler had the collection, and since when that is
// remembered; nil if that is not known. Nothing depends on it, so that what is damaged counts as not known.
func (c *Collection) KeptPolicy() (p fresh.Policy, at time.Time) {
	err := c.reading(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return nil
		}
		raw, ok := unseal(policyKey, meta.Get(policyKey))
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
