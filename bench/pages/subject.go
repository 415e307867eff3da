package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyweb/parley/bench/internal/program"
)

// A subject is a program whose page is measured.
type subject struct {
	name, admin string // admin is the origin of the page
	program     *program.Program
	end         func() // ends the program and its surroundings
}

// stranger returns a client with a connection for each request, which is reset in the end: thousands of them leave nothing behind.
func stranger() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			c.(*net.TCPConn).SetLinger(0)
		}
		return c, err
	}}}
}

// do sends a request as a browser does, and wants a status.
func (s *subject) do(ctx context.Context, c *http.Client, method, path string, status int) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.admin+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Origin", s.admin)
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != status {
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s%s: %s", method, s.admin, path, resp.Status)
	}
	return resp.Body, nil
}

// text returns the body of a response.
func (s *subject) text(ctx context.Context, c *http.Client, method, path string, status int) ([]byte, error) {
	body, err := s.do(ctx, c, method, path, status)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// renew makes the program render the page anew for the next request: it sends a form with a task that does not exist.
func (s *subject) renew(ctx context.Context) error {
	_, err := s.text(ctx, http.DefaultClient, "POST", "/do/nothing", http.StatusConflict)
	return err
}

// load loads the page anew, over a new connection, and returns the times until its first and its last byte.
func (s *subject) load(ctx context.Context) (first, whole time.Duration, err error) {
	if err := s.renew(ctx); err != nil {
		return 0, 0, err
	}
	c, began := &http.Client{Transport: &http.Transport{}}, time.Now()
	defer c.CloseIdleConnections()
	for i, path := range []string{"/", "/admin.css", "/admin.js"} {
		came := func() {
			if i == 0 {
				first = time.Since(began)
			}
		}
		if _, err := s.text(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: came}), c, "GET", path, http.StatusOK); err != nil {
			return 0, 0, err
		}
	}
	return first, time.Since(began), nil
}

// metrics returns some of the program's metrics.
func (s *subject) metrics(ctx context.Context, names ...string) (values []float64, err error) {
	text, err := s.text(ctx, http.DefaultClient, "GET", "/metrics", http.StatusOK)
	for _, name := range names {
		_, rest, _ := strings.Cut("\n"+string(text), "\n"+name+" ")
		value, _, _ := strings.Cut(rest, "\n")
		v, wrong := strconv.ParseFloat(value, 64)
		values, err = append(values, v), errors.Join(err, wrong)
	}
	return values, err
}

// share returns which share of one processor the program uses for a while.
func (s *subject) share(ctx context.Context, last time.Duration) (float64, error) {
	const cpu = "process_cpu_seconds_total"
	before, err := s.metrics(ctx, cpu)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-time.After(last):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	took := time.Since(began)
	after, err := s.metrics(ctx, cpu)
	return (after[0] - before[0]) / took.Seconds(), err
}

// view lets viewers open the page, and returns once all have it. stop ends them; it returns how many updates they have got after that, and
// an error if a stream ended before.
func (s *subject) view(ctx context.Context) (stop func() (updates int, err error), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	var got atomic.Int64
	ended := make(chan error, viewers)
	stop = func() (int, error) {
		cancel()
		reading.Wait()
		close(ended)
		return int(got.Load()), <-ended
	}
	for range viewers {
		events, err := s.events(ctx, stranger())
		if err != nil {
			stop()
			return nil, err
		}
		reading.Go(func() {
			defer events.Close()
			lines := bufio.NewScanner(events)
			for lines.Buffer(nil, 1<<20); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "data: {") {
					got.Add(1)
				}
			}
			if ctx.Err() == nil {
				ended <- fmt.Errorf("a viewer's stream has ended: %v", lines.Err())
			}
		})
	}
	return stop, nil
}

// events opens the page's stream of events, and reads all sections from it.
func (s *subject) events(ctx context.Context, c *http.Client) (io.ReadCloser, error) {
	body, err := s.do(ctx, c, "GET", "/events?after=0", http.StatusOK)
	if err != nil {
		return nil, err
	}
	for r := bufio.NewReader(body); ; {
		switch line, err := r.ReadBytes('\n'); {
		case bytes.HasPrefix(line, []byte("data:")):
			return body, nil
		case err != nil:
			return nil, errors.Join(err, body.Close())
		}
	}
}

// update renders the page anew many times, each time for a viewer who then leaves, and returns by how much heap, in bytes, and goroutines
// have grown.
func (s *subject) update(ctx context.Context, updates int) (heap, goroutines float64, err error) {
	c, least := stranger(), [10][2]float64{} // by tenth of the updates
	for i := range updates {
		if err := s.renew(ctx); err != nil {
			return 0, 0, err
		}
		events, err := s.events(ctx, c)
		if err != nil {
			return 0, 0, err
		}
		events.Close()
		if i%10 > 0 {
			continue
		}
		// The collector's goal is twice the live heap: unlike the heap itself, it does not depend on the garbage of this moment.
		now, err := s.metrics(ctx, "go_memstats_next_gc_bytes", "go_goroutines")
		if err != nil {
			return 0, 0, err
		}
		for k, v := range now {
			if m := &least[i*10/updates][k]; *m == 0 || v < *m {
				*m = v
			}
		}
	}
	return (least[9][0] - least[1][0]) / 2, least[9][1] - least[1][1], nil
}
