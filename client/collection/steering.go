package collection

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/parleyweb/parley/client/collection/internal/queue"
	"github.com/parleyweb/parley/client/collection/internal/record"
	"github.com/parleyweb/parley/internal/boltfile"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/steer"
)

// steeringKey is the key in the meta bucket of what a person has set on the crawl while it ran.
var steeringKey = []byte("steering")

// Steering returns what a Commit or EditSteering has stored last; the zero value if that was nothing.
func Steering(c *Collection) (s steer.Steering, err error) {
	var text []byte
	if err = c.reading(func(tx *bbolt.Tx) (err error) { text, err = steeringOf(tx); return err }); err != nil {
		return s, fmt.Errorf("read steering: %w", err)
	}
	return steer.Parse(text)
}

// EditSteering changes the steering of the collection in a directory, which must exist: change gets the present one, and the origins of
// the sites to range over once. It reads nothing else of the collection, and returns ErrHeld if a process has it open.
func EditSteering(dir string, change func(text []byte, origins iter.Seq[string]) ([]byte, error)) error {
	db, err := boltfile.Open(filepath.Join(dir, contents.StateFile), boltfile.Options{Wait: time.Second}) // another command may just be reading it
	if err == nil {
		defer db.Close()
		err = boltfile.RecoverDamage(func() error {
			return db.Update(func(tx *bbolt.Tx) error {
				text, err := steeringOf(tx)
				if err != nil {
					return err
				}
				sites, damaged := index{origins: map[string]frontier.SiteID{}}, error(nil)
				text, err = change(text, func(yield func(string) bool) {
					if damaged = sites.load(tx, queue.NewStage()); damaged == nil {
						slices.Values(sites.names)(yield)
					}
				})
				if err = errors.Join(err, damaged); err != nil {
					return err
				}
				return putSteering(tx, text)
			})
		})
	}
	if err != nil {
		return fmt.Errorf("edit steering of %s: %w", dir, err)
	}
	return nil
}

func steeringOf(tx *bbolt.Tx) ([]byte, error) {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return nil, errEmpty
	}
	raw := meta.Get(steeringKey)
	text, ok := record.Unseal(steeringKey, raw)
	if raw != nil && !ok {
		return nil, record.Damaged(metaBucket, steeringKey)
	}
	return append([]byte(nil), text...), nil
}

func putSteering(tx *bbolt.Tx, text []byte) error {
	return tx.Bucket(metaBucket).Put(steeringKey, record.Seal(append([]byte(nil), text...), steeringKey, 0))
}
