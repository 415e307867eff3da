// Node is a process of a test: a node of a crawl whose partitions have one host each, which it asks without end.
//
//	node NATS WEB DIR NAME PARTITIONS LEASE WAIT
//
// All hosts are served at the address WEB. It prints its time once it runs.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/internal/engine/frontier"
	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/nats/cluster"
)

type resolver struct{}

func (resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("20.2.0.1")}, nil
}

func main() {
	web, name := os.Args[2], os.Args[4]
	partitions, _ := strconv.Atoi(os.Args[5])
	lease, _ := time.ParseDuration(os.Args[6])
	wait, _ := time.ParseDuration(os.Args[7])
	conn, err := nats.Connect(os.Args[1], nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1))
	if err != nil {
		log.Fatal(err)
	}
	n := &cluster.Node{Conn: conn, Crawl: "test", Name: name, Dir: os.Args[3], Partitions: partitions, Lease: lease, Snapshots: time.Hour, Log: slog.New(slog.DiscardHandler)}
	n.Engine = func(ctx context.Context, p *cluster.Part) error {
		h := &harvest.Harvester{Options: harvest.Options{Agent: name, Wait: wait, WaitBig: wait, Slow: -1, AddressRate: 1e6, Ends: p.Ends, Resolver: resolver{},
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, web)
			}}}
		defer h.Close()
		return ask(ctx, h, fmt.Sprintf("http://site%d.example", p.Number))
	}
	fmt.Println(time.Now().Format(time.RFC3339))
	log.Fatal(n.Run(context.Background()))
}

// ask asks a host for pages, and for its robots.txt beside them.
func ask(ctx context.Context, h *harvest.Harvester, origin string) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() {
		for ctx.Err() == nil {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, origin+"/robots.txt", nil)
			if resp, err := (&http.Client{Transport: h.Transport(origin)}).Do(req); err == nil {
				resp.Body.Close()
			}
		}
	})
	batch := uint64(0)
	return h.Run(ctx, func(context.Context, bool) (*harvest.Batch, error) {
		batch++
		b := &harvest.Batch{Number: batch, Sites: []harvest.SiteBatch{{Site: 1, Origin: origin}}}
		for i := range 100 {
			page := frontier.PageID(batch*100 + uint64(i))
			b.Sites[0].Tasks = append(b.Sites[0].Tasks, harvest.Task{Page: page, URL: fmt.Sprintf("%s/%d", origin, page)})
		}
		return b, nil
	}, (*harvest.Answer).Release)
}
