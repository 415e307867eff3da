package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/nats/jetlog"
)

// A bucket is what a crawl has in NATS.
type bucket struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	urls   jetstream.Stream
	states jetstream.ObjectStore

	addresses jetstream.KeyValue
	events    jetstream.Stream // nil: events are not told
	id        string           // of the crawl: another one, if NATS has lost it
}

// An entry is the value of a key.
type entry struct {
	value    []byte
	revision uint64
}

// A record is the value of a partition's key.
type record struct {
	Process  string `json:"process,omitempty"` // that has the partition; empty: none
	Snapshot string `json:"snapshot,omitempty"`
	Age      uint64 `json:"age,omitempty"`      // of the snapshot: the revision with which the lease began under which it was made
	Position uint64 `json:"position,omitempty"` // of the snapshot: the last message of URLs that it has
	Events   uint64 `json:"events,omitempty"`   // of the snapshot: a message of events, up to which it has all
	Whole    bool   `json:"whole,omitempty"`    // the snapshot has all that the last process has done, which has given the partition back
}

func parseRecord(value []byte) (r record) {
	if json.Unmarshal(value, &r) != nil {
		return record{}
	}
	return r
}

// Keys.
const crawlKey = "crawl"

func nodeKey(name string) string { return "node." + name }
func partKey(number int) string  { return "partition." + strconv.Itoa(number) }
func isNode(key string) bool     { return strings.HasPrefix(key, nodeKey("")) }

var inKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// subject is that of the URLs for a partition.
func (n *Node) subject(number int) string {
	return fmt.Sprintf("%s-urls.%d", bucketName(n.Crawl), number)
}

// open opens or creates all of it, as soon as NATS answers. It returns nil if ctx ends.
func (n *Node) open(ctx context.Context) (err error) {
	if !inKey.MatchString(n.Crawl) || !inKey.MatchString(n.Name) {
		return fmt.Errorf("crawl %q, node %q: want letters, digits, '-' and '_'", n.Crawl, n.Name)
	}
	if n.in.js, err = jetstream.New(n.Conn, jetstream.WithDefaultTimeout(n.wait())); err != nil {
		return err
	}
	if err = n.retry(ctx, func() error { return n.try(ctx) }); err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("run node %s of crawl %s: %w", n.Name, n.Crawl, err)
}

// plain returns an error in words for people.
func plain(err error) error {
	if errors.Is(err, nats.ErrReconnectBufExceeded) { // nothing is kept for a server that comes back
		return errors.New("no NATS server answers")
	}
	return err
}

// wait is how long NATS may take to answer one request.
func (n *Node) wait() time.Duration { return min(n.Lease/4, 2*time.Second) }

var errDiffers = errors.New("it was begun otherwise")

func (n *Node) try(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name, replicas := bucketName(n.Crawl), 1
	if n.Conn.ConnectedClusterName() != "" {
		replicas = 3
	}
	if n.in.kv, err = n.in.js.KeyValue(ctx, name); errors.Is(err, jetstream.ErrBucketNotFound) {
		n.in.kv, err = n.in.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, Replicas: replicas, Storage: jetstream.FileStorage})
	}
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", name, err)
	}
	if n.in.urls, err = n.in.js.Stream(ctx, name+"-urls"); errors.Is(err, jetstream.ErrStreamNotFound) {
		n.in.urls, err = n.in.js.CreateStream(ctx, jetstream.StreamConfig{Name: name + "-urls", Subjects: []string{name + "-urls.*"}, Replicas: replicas,
			Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew})
	}
	if err != nil {
		return fmt.Errorf("open stream %s-urls: %w", name, err)
	}
	if n.in.states, err = n.in.js.ObjectStore(ctx, name+"-states"); errors.Is(err, jetstream.ErrBucketNotFound) {
		n.in.states, err = n.in.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name + "-states", Replicas: replicas, Storage: jetstream.FileStorage})
	}
	if err != nil {
		return fmt.Errorf("open objects %s-states: %w", name, err)
	}
	if n.in.addresses, err = n.in.js.KeyValue(ctx, name+"-addresses"); errors.Is(err, jetstream.ErrBucketNotFound) {
		n.in.addresses, err = n.in.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name + "-addresses", Replicas: replicas, Storage: jetstream.FileStorage, LimitMarkerTTL: time.Hour})
	}
	if err != nil {
		return fmt.Errorf("open bucket %s-addresses: %w", name, err)
	}
	if n.Events > 0 {
		if n.in.events, err = n.in.js.Stream(ctx, name+"-events"); errors.Is(err, jetstream.ErrStreamNotFound) {
			n.in.events, err = n.in.js.CreateStream(ctx, jetstream.StreamConfig{Name: name + "-events", Subjects: []string{name + "-events.*"}, Replicas: replicas,
				Storage: jetstream.FileStorage, MaxMsgs: int64(n.Events), MaxAge: eventsAge, AllowAtomicPublish: true})
		}
		if err != nil {
			return fmt.Errorf("open stream %s-events: %w", name, err)
		}
	}
	known, err := jetlog.Durable(ctx, n.Conn, n.in.urls)
	if err != nil {
		return err
	} else if !known {
		n.Log.Warn("whether NATS syncs every change to disk is not known, since this account may not ask: see docs/scale.md")
	}
	return n.agree(ctx)
}

// settings are the value of crawlKey.
type settings struct {
	ID         string        `json:"id"`
	Partitions int           `json:"partitions"`
	Lease      time.Duration `json:"lease"`
	Events     int           `json:"events"` // that the stream keeps
}

// agree compares the settings of this node with those of the first one.
func (n *Node) agree(ctx context.Context) error {
	mine := settings{rand.Text(), n.Partitions, n.Lease, n.Events}
	b, err := json.Marshal(mine)
	if err == nil {
		_, err = n.in.kv.Create(ctx, crawlKey, b)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		var e jetstream.KeyValueEntry
		if e, err = n.in.kv.Get(ctx, crawlKey); err == nil {
			err = json.Unmarshal(e.Value(), &mine)
		}
	}
	switch {
	case err != nil:
		return err
	case mine != settings{mine.ID, n.Partitions, n.Lease, n.Events}:
		return fmt.Errorf("%w: it has %d partitions, a lease of %v and keeps %d events, not %d, %v and %d: stop all its nodes and delete what NATS has of it, or give it another name",
			errDiffers, mine.Partitions, mine.Lease, mine.Events, n.Partitions, n.Lease, n.Events)
	}
	n.in.id = mine.ID
	return nil
}
