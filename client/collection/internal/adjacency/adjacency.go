// Package adjacency stores what pages lead to: the forward adjacency (V26), for each page the numbers of the pages that it links to, ascending, as
// differences; and what else each page refers to, as package references encodes it.
package adjacency

import (
	"encoding/binary"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/references"
)

var (
	Links      = []byte("links")      // the bucket page -> pages
	References = []byte("references") // the bucket page -> what else it refers to; missing in the state of an earlier version
)

// appendLinks sorts to, and appends each page once, without 0.
func appendLinks(b []byte, to []frontier.PageID) []byte {
	slices.Sort(to)
	var last frontier.PageID
	for _, id := range to {
		if id != last {
			b = binary.AppendUvarint(b, uint64(id-last))
			last = id
		}
	}
	return b
}

// ParseLinks reads a value of Links.
func ParseLinks(_, v []byte) (list []frontier.PageID, ok bool) {
	d := record.Decoder{B: v}
	var last frontier.PageID
	for len(d.B) > 0 {
		last += frontier.PageID(d.Uint())
		list = append(list, last)
	}
	return list, !d.Bad
}

// ParseReferences reads a value of References, which has that key.
func ParseReferences(key, v []byte) (*references.Counts, bool) {
	body, ok := record.Unseal(key, v)
	if !ok {
		return nil, false
	}
	return references.Parse(body)
}

// Changes are what a transaction changes. The zero value cannot be used.
type Changes struct {
	tx    *bbolt.Tx
	pages map[frontier.PageID]leads
	spare []frontier.PageID // memory for lists
}

// Leads are the pages that a page links to, and what else it refers to.
type leads struct {
	to   []frontier.PageID
	refs []byte
}

// In returns no changes yet of a state, whose transaction may be one for reading until Flush.
func In(tx *bbolt.Tx) Changes { return Changes{tx: tx} }

// List returns an empty list with room for n page numbers.
func (c *Changes) List(n int) []frontier.PageID {
	if len(c.spare) < n {
		c.spare = make([]frontier.PageID, max(n, 4096))
	}
	list := c.spare[:0:n]
	c.spare = c.spare[n:]
	return list
}

// Links returns the links of a page.
func (c *Changes) Links(id frontier.PageID) ([]frontier.PageID, error) {
	if p, ok := c.pages[id]; ok {
		return p.to, nil
	}
	key := record.PageKey(id)
	list, ok := ParseLinks(nil, c.tx.Bucket(Links).Get(key[:]))
	if !ok {
		return nil, record.Damaged(Links, key[:])
	}
	return list, nil
}

// References returns what else a page refers to, encoded; nothing if that is damaged.
func (c *Changes) References(id frontier.PageID) (refs []byte) {
	if p, ok := c.pages[id]; ok {
		return p.refs
	}
	if b := c.tx.Bucket(References); b != nil {
		key := record.PageKey(id)
		refs, _ = record.Unseal(key[:], b.Get(key[:]))
	}
	return refs
}

// Set replaces both. It keeps their memory until Flush.
func (c *Changes) Set(id frontier.PageID, to []frontier.PageID, refs []byte) {
	if c.pages == nil {
		c.pages = map[frontier.PageID]leads{}
	}
	c.pages[id] = leads{to, refs}
}

// Flush writes the changes; what is empty has no record.
func (c *Changes) Flush() error {
	if len(c.pages) == 0 {
		return nil
	}
	links := c.tx.Bucket(Links)
	others, err := c.tx.CreateBucketIfNotExists(References)
	if err != nil {
		return err
	}
	const ascending = 0.9 // the keys are written in order; bbolt's default, one half, is for random keys
	links.FillPercent, others.FillPercent = ascending, ascending
	for _, id := range slices.Sorted(maps.Keys(c.pages)) {
		key, p := record.PageKey(id), c.pages[id]
		if err := replace(links, key[:], appendLinks(nil, p.to)); err != nil {
			return err
		}
		var b []byte
		if len(p.refs) > 0 {
			b = record.Seal(append(make([]byte, 0, len(p.refs)+4), p.refs...), key[:], 0)
		}
		if err := replace(others, key[:], b); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a record.
func replace(b *bbolt.Bucket, key, value []byte) error {
	if len(value) == 0 {
		return b.Delete(key)
	}
	return b.Put(key, value)
}
