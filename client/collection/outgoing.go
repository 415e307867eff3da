package collection

import (
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/outbox"
	"github.com/parleyweb/parley/internal/engine/partition"
)

// keepFor keeps a URL for the crawler of another partition.
func (u *update) keepFor(f *Find) {
	if !f.LogOnly {
		u.c.index.outbox.Keep(u.c.index.urls.Hash(f.URL), partition.Find{Partition: f.Partition, URL: f.URL, Depth: f.Depth})
	}
}

// Outgoing returns the URLs that are kept for the crawlers of other partitions: those of whole transactions, the oldest first, until there are at
// least so many. It also returns the number of the last transaction, for Sent.
func Outgoing(c *Collection, most int) (finds []partition.Find, last uint64, err error) {
	err = c.reading(func(tx *bbolt.Tx) (err error) {
		finds, last, err = outbox.List(tx, most)
		return err
	})
	if err != nil {
		err = fmt.Errorf("read URLs for other partitions: %w", err)
	}
	return finds, last, err
}

// Sent forgets the URLs that Outgoing has returned up to a number.
func Sent(c *Collection, last uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.update(func(u *update) error { return outbox.Drop(u.tx, last) }); err != nil {
		return fmt.Errorf("forget URLs that were sent: %w", err)
	}
	return nil
}
