package main

import (
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// poll is the crawler of a site without Parley: it fetches each page in turn, over one persistent connection,
// and repeats every period. It is a process of its own so that its cost can be measured.
//
//	schemes poll -base URL -into DIR -names FILE -every 5s [-conditional]
func poll(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("poll", flag.ContinueOnError)
	base := flags.String("base", "", "URL of the site")
	into := flags.String("into", "", "directory of the copy")
	file := flags.String("names", "", "file of page names, one per line")
	every := flags.Duration("every", 0, "polling interval")
	conditional := flags.Bool("conditional", false, "use conditional requests (C07)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	list, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	names := strings.Fields(string(list))
	etags := make([]string, len(names))
	for tick := time.NewTicker(*every); ; {
		for i, name := range names {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, *base+name, nil)
			if err != nil {
				return err
			}
			if *conditional && etags[i] != "" {
				req.Header.Set("If-None-Match", etags[i])
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil && ctx.Err() == nil {
				return err
			}
			if resp.StatusCode != http.StatusOK {
				continue
			}
			etags[i] = resp.Header.Get("ETag")
			file := filepath.Join(*into, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(file+".new~", text, 0o644); err != nil {
				return err
			}
			if err := os.Rename(file+".new~", file); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
