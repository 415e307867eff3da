package public

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/server/internal/stat"
)

// robotsTimeout bounds the time for fetching robots.txt.
const robotsTimeout = 15 * time.Second

// IsURL reports whether a name is an http(s) URL, and not a file.
func IsURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// ReadRobots returns the content of a robots.txt, at most a byte more than robots.MaxBytes. Name is a file,
// which must exist, or an http(s) URL: for one that answers 404 or 410 it returns nil.
func ReadRobots(ctx context.Context, name string) ([]byte, error) {
	if IsURL(name) {
		return fetchRobots(ctx, name)
	}
	f, err := stat.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRules(f)
}

func fetchRobots(ctx context.Context, url string) ([]byte, error) {
	c := fetch.Client{Agent: "parley", Timeout: robotsTimeout, MaxBytes: robots.MaxBytes + 1, Redirects: 10}
	a, err := c.Get(ctx, url, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	defer a.Close()
	switch a.Status {
	case http.StatusOK:
		return readRules(a)
	case http.StatusNotFound, http.StatusGone:
		return nil, nil
	}
	return nil, fmt.Errorf("GET %s: %s", url, a.Says())
}

// readRules reads one byte more than counts, so that robots.Parse sees that there is more. It returns nil
// only with an error.
func readRules(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, robots.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	return b, nil
}
