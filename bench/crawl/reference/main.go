// Reference is a crawler that can be written in an hour with net/http and the tokenizer of
// golang.org/x/net/html, and its floor: fetching a list. It stores nothing. bench/crawl runs it beside
// Parley's crawler; it is not part of Parley.
//
//	reference [-workers N] URL          # follow the links of the site
//	reference [-workers N] -list FILE   # fetch the URLs in a file, one a line, and parse no page
//
// It follows the links of <a>, <area>, <iframe> and <frame>, as Parley does, and ignores robots.txt: it is
// for sites on loopback.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/html"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("reference", flag.ContinueOnError)
	workers := flags.Int("workers", 8, "number of concurrent requests")
	list := flags.String("list", "", "fetch the URLs in this `FILE`, one per line, and follow no links")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c := &crawler{
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: *workers, MaxConnsPerHost: *workers, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		seen: map[string]bool{},
	}
	c.wake = sync.NewCond(&c.mu)
	if *list != "" {
		f, err := os.Open(*list)
		if err != nil {
			return err
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			c.queue = append(c.queue, s.Text())
		}
	} else {
		seed, err := url.Parse(flags.Arg(0))
		if err != nil || seed.Host == "" {
			return errors.New("the start URL is missing")
		}
		c.host, c.follow = seed.Host, true
		c.seen[seed.String()] = true
		c.queue = []string{seed.String()}
	}
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Wait()
	fmt.Fprintf(out, "%d pages, %d MB\n", c.pages.Load(), c.bytes.Load()>>20)
	return errors.Join(c.failed, ctx.Err())
}

// A crawler has its queue and the URLs seen in memory.
type crawler struct {
	client *http.Client
	host   string
	follow bool

	pages, bytes atomic.Int64

	mu     sync.Mutex // guards all below
	wake   *sync.Cond
	queue  []string
	busy   int
	seen   map[string]bool
	failed error
}

func (c *crawler) work(ctx context.Context) {
	var links []string
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && c.busy > 0 {
			c.wake.Wait()
		}
		if len(c.queue) == 0 || c.failed != nil || ctx.Err() != nil {
			c.mu.Unlock()
			c.wake.Broadcast()
			return
		}
		u := c.queue[0]
		c.queue = c.queue[1:]
		c.busy++
		c.mu.Unlock()

		var err error
		links, err = c.fetch(ctx, u, links[:0])

		c.mu.Lock()
		for _, l := range links {
			if !c.seen[l] {
				c.seen[l] = true
				c.queue = append(c.queue, l)
			}
		}
		if err != nil && c.failed == nil {
			c.failed = fmt.Errorf("%s: %w", u, err)
		}
		c.busy--
		c.mu.Unlock()
		c.wake.Broadcast()
	}
}

// fetch fetches a page, and appends its links to the same host.
func (c *crawler) fetch(ctx context.Context, u string, links []string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", u, nil)
	if err != nil {
		return links, err
	}
	req.Header.Set("User-Agent", "reference/1")
	resp, err := c.client.Do(req)
	if err != nil {
		return links, err
	}
	defer resp.Body.Close()
	body := &counter{r: resp.Body}
	defer func() { c.bytes.Add(body.n) }()
	if location := resp.Header.Get("Location"); location != "" && c.follow {
		links = c.resolve(links, req.URL, location)
	}
	if resp.StatusCode == http.StatusOK {
		c.pages.Add(1)
		if c.follow && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			return c.read(links, req.URL, body)
		}
	}
	_, err = io.Copy(io.Discard, body)
	return links, err
}

// read appends the links of a page.
func (c *crawler) read(links []string, base *url.URL, body io.Reader) ([]string, error) {
	for z := html.NewTokenizer(body); ; {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); err != io.EOF {
				return links, err
			}
			return links, nil
		case html.StartTagToken, html.SelfClosingTagToken:
			tag, more := z.TagName()
			want := ""
			switch string(tag) {
			case "a", "area", "base":
				want = "href"
			case "iframe", "frame":
				want = "src"
			}
			isBase := string(tag) == "base"
			for more && want != "" {
				var key, value []byte
				key, value, more = z.TagAttr()
				if string(key) != want {
					continue
				}
				if isBase {
					if b, err := base.Parse(string(value)); err == nil {
						base = b
					}
				} else {
					links = c.resolve(links, base, string(value))
				}
			}
		}
	}
}

func (c *crawler) resolve(links []string, base *url.URL, ref string) []string {
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil || u.Host != c.host || u.Scheme != "http" && u.Scheme != "https" {
		return links
	}
	u.Fragment, u.RawFragment = "", ""
	return append(links, u.String())
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
