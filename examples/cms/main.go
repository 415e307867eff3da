// Cms is a small content management system: pages in a file, rendered by templates on request, edited in the
// browser. It supports Parley through one hook, which announces changes to a notifier beside it:
//
//	go run ./examples/cms --store pages.json --token-file token --notifier http://127.0.0.1:8639
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "cms:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("cms", flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:8080", "listen on `ADDRESS`")
	base := f.String("base", "", "`URL` of the site; empty: http://ADDRESS/")
	file := f.String("store", "pages.json", "keep the pages in `FILE`")
	notifier := f.String("notifier", "http://127.0.0.1:8639", "`URL` of the notifier")
	tokenFile := f.String("token-file", "", "`FILE` with the notifier's token")
	if err := f.Parse(args); err != nil {
		return err
	}
	token, err := os.ReadFile(*tokenFile)
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	door, err := url.Parse(*notifier)
	if err != nil {
		return fmt.Errorf("--notifier: %w", err)
	}
	store, err := OpenStore(*file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if *base == "" {
		*base = "http://" + l.Addr().String() + "/"
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	site := &Site{Store: store, Base: *base, Password: os.Getenv("CMS_PASSWORD"), Notifier: door}
	if site.Password == "" {
		log.Warn("editing is disabled: set CMS_PASSWORD")
	}
	hook := &Hook{Store: store, Site: site, Announce: door.JoinPath("parley/announce").String(), Token: strings.TrimSpace(string(token)), Log: log}

	var owned sync.WaitGroup
	defer owned.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	owned.Go(func() { hook.Run(ctx) })
	srv := &http.Server{Handler: site.Handler(), ReadHeaderTimeout: 10 * time.Second}
	owned.Go(func() {
		<-ctx.Done()
		srv.Close()
	})
	log.Info("serving", "site", *base)
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
