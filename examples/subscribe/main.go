// Subscribe prints every change of a site, and resumes when started again:
//
//	go run ./examples/subscribe https://www.example.org/ cursor.txt
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: subscribe SITE CURSORFILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := follow(ctx, os.Args[1], os.Args[2], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func follow(ctx context.Context, site, file string, out io.Writer) error {
	var cursor protocol.Cursor // zero: from the beginning
	b, err := os.ReadFile(file)
	if err == nil {
		cursor, err = protocol.ParseCursor(string(b))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	src := &client.Source{Base: site, UserAgent: "subscribe/1.0 (+https://example.net/bot)"}
	for step, err := range client.Follow(ctx, src, cursor) {
		if err != nil {
			log.Print(err) // for information only: Follow retries by itself
		}
		for _, c := range step.Changes {
			fmt.Fprintln(out, c.Op, c.Item.URL, c.From) // a crawler stores here what it must fetch
		}
		if step.Cursor.IsZero() {
			continue // a snapshot is still arriving
		}
		// Store the cursor last: after a crash a change may then be printed twice, but none is lost.
		if err = os.WriteFile(file+".new", []byte(step.Cursor.String()), 0o600); err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
