package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/robots"
)

// robotsTimeout is how long fetching robots.txt may take.
const robotsTimeout = 15 * time.Second

// isWebURL reports whether a name is that of something on the Web, and not of a file.
func isWebURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// ReadRobots returns what a robots.txt says, a byte more than robots.MaxBytes
// at most. Name is a file, which must be there, or an http(s) URL: one that
// answers 404 or 410 says nothing, which is nil.
func ReadRobots(ctx context.Context, name string) ([]byte, error) {
	if isWebURL(name) {
		return fetchRobots(ctx, name)
	}
	f, err := os.OpenFile(name, openQuietly, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := statOpen(f); err != nil {
		return nil, err
	} else if st.mode != 0 {
		return nil, fmt.Errorf("%s: %s", name, leftIrregular)
	}
	return readRules(f)
}

func fetchRobots(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, robotsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "parley")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return readRules(resp.Body)
	case http.StatusNotFound, http.StatusGone:
		return nil, nil
	}
	return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
}

// readRules reads one byte more than counts, so that robots.Parse knows that
// there is more. It returns nil with an error only.
func readRules(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, robots.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// PublicTo reports whether robots.txt allows a URL that is [Site.Public] to
// whom it has a group of rules for: the product token name. Whoever has none
// goes by the rules for everybody. It is made for [Notifier].PublicTo.
func (s *Site) PublicTo(name, url string) bool {
	places := s.publicPlaces(url)
	s.mu.Lock()
	rules := s.robots
	s.mu.Unlock()
	for _, place := range places {
		if s.allowedTo(name, rules, place, url) {
			return true
		}
	}
	return false
}
