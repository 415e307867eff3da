package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const pause = 100 * time.Millisecond

// hostile measures how long a polite crawler waits for the response to a cheap request, alone and beside
// eight hostile clients of each kind, in turns. They run on the same machine: each pauses between two
// requests, so that the site's work is measured and not theirs.
func (w *world) hostile(ctx context.Context, out io.Writer) error {
	var many strings.Builder
	many.WriteString(`{"pages":[`)
	for i := range 100_000 {
		fmt.Fprintf(&many, `{"url":"%sp/%d.html"},`, w.base, i)
	}
	tooMany := strings.TrimSuffix(many.String(), ",") + "]}"
	many.Reset()
	many.WriteString(`{"pages":[`)
	for i := range 10_000 {
		fmt.Fprintf(&many, `{"url":"%s?%d"},`, w.items[i%len(w.items)].URL, i/len(w.items))
	}
	most := strings.TrimSuffix(many.String(), ",") + "]}"
	post := func(body string) func() (*http.Request, error) {
		return func() (*http.Request, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"parley/batch", strings.NewReader(body))
			if err == nil {
				r.Header.Set("Content-Type", "application/json")
			}
			return r, err
		}
	}
	kinds := []struct {
		name string
		ask  func() (*http.Request, error)
	}{
		{"alone", nil},
		{"with 8 clients requesting nothing", func() (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodGet, w.base+"parley/none", nil)
		}},
		{"with 8 clients requesting 100,000 pages", post(tooMany)},
		{"with 8 clients requesting 10,000 pages", post(most)},
		{"with 8 clients requesting all pages", func() (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodGet, w.base+"parley/batch?after="+w.from.String(), nil)
		}},
	}
	waits := make([][]time.Duration, len(kinds))
	answers := make([]map[int]int, len(kinds))
	for range 4 {
		for k, kind := range kinds {
			if answers[k] == nil {
				answers[k] = map[int]int{}
			}
			over, stop := context.WithCancel(ctx)
			var others sync.WaitGroup
			var mu sync.Mutex
			for range 8 {
				if kind.ask == nil {
					break
				}
				others.Go(func() {
					for over.Err() == nil {
						r, err := kind.ask()
						if err != nil {
							return
						}
						resp, err := http.DefaultClient.Do(r.WithContext(over))
						if err != nil {
							continue
						}
						io.Copy(io.Discard, resp.Body) // it is cut at the end
						resp.Body.Close()
						mu.Lock()
						answers[k][resp.StatusCode]++
						mu.Unlock()
						select {
						case <-time.After(pause):
						case <-over.Done():
						}
					}
				})
			}
			for began := time.Now(); time.Since(began) < 2*time.Second; {
				at := time.Now()
				resp, err := http.Get(w.base + "parley/changes?limit=10&after=" + w.from.String())
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						err = errors.New(resp.Status)
					}
				}
				if err != nil {
					stop()
					others.Wait()
					return fmt.Errorf("%s: %w", kind.name, err)
				}
				waits[k] = append(waits[k], time.Since(at))
			}
			stop()
			others.Wait()
		}
	}
	for k, kind := range kinds {
		fmt.Fprintf(out, "  %-36s %8.2f ms, %.1f times the time alone; responses to the other clients by status: %v\n", kind.name, ms(median(waits[k])), float64(median(waits[k]))/float64(median(waits[0])), answers[k])
	}
	return nil
}
