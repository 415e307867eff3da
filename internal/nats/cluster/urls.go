package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/engine/partition"
)

// mostMessage is the length of a message: servers take 1 MiB if they are not told otherwise.
const mostMessage = 512 << 10

var _ partition.Carrier = (*Part)(nil)

// Send implements partition.Carrier. A batch that is sent again within two minutes is stored once.
func (p *Part) Send(finds []partition.Find) error {
	for to, text := range partition.Pack(finds, mostMessage) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := p.is.n.in.js.Publish(ctx, p.is.n.subject(to), text, jetstream.WithMsgID(fmt.Sprintf("%d %x", to, sha256.Sum256(text))))
		cancel()
		if err != nil {
			return fmt.Errorf("send URLs to partition %d: %w", to, err)
		}
	}
	return nil
}

// Receive implements partition.Carrier. What has come stays in the stream until a snapshot has it: the mark in the directory says what the state has.
func (p *Part) Receive(ctx context.Context, store func([]partition.Find, error) error) error {
	began := p.is.at.urls.Load()
	err := p.receive(ctx, store)
	if p.is.at.urls.Load() != began {
		err = cmp.Or(err, p.is.mark())
	}
	return err
}

func (p *Part) receive(ctx context.Context, store func([]partition.Find, error) error) error {
	at := p.is.at.urls.Load()
	for last := false; !last; {
		var batch []partition.Find // of several messages: a commit for each of them would cost more than the URLs do
		var damaged error
		for damaged == nil && len(batch) < partition.MostFinds {
			m, err := p.is.n.in.urls.GetMsg(ctx, at+1, jetstream.WithGetMsgSubject(p.is.n.subject(p.Number)))
			if last = errors.Is(err, jetstream.ErrMsgNotFound); last {
				break
			} else if err != nil {
				return fmt.Errorf("read URLs for partition %d: %w", p.Number, err)
			}
			at = m.Sequence
			var finds []partition.Find
			finds, damaged = partition.Unpack(bytes.NewReader(m.Data))
			batch = append(batch, finds...)
		}
		if len(batch) > 0 || damaged != nil {
			if err := store(batch, damaged); err != nil {
				return err
			}
		}
		p.is.at.urls.Store(at)
	}
	return nil
}
