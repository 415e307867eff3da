package collection

import (
	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/frontier"
)

// Waiting returns all entries that wait, in order.
func (c *Collection) Waiting() (list []frontier.Entry, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		return tx.Bucket(waitingBucket).ForEach(func(k, v []byte) error {
			e, ok := parseWaiting(k, v)
			if !ok {
				return damaged(waitingBucket, k)
			}
			list = append(list, e)
			return nil
		})
	})
	return list, err
}

// Used returns how many bytes of the file are in use.
func (c *Collection) Used() (n int64, err error) {
	err = c.reading(func(tx *bbolt.Tx) error {
		n = tx.Size() - int64(c.db.Stats().FreePageN+c.db.Stats().PendingPageN)*int64(c.db.Info().PageSize)
		return nil
	})
	return n, err
}

// HoldBack makes the collection hold back so many changes of its queue, so that
// a test sees them merged. It is for right after Open.
func (c *Collection) HoldBack(n int) { c.stage.limit = n }
