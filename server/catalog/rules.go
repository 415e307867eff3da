package catalog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/robots"
	"github.com/parleyweb/parley/server"
)

const (
	rulesAgain = 10 * time.Second // before Public tries again

	// rulesHeld is how long a robots.txt counts after its URL has begun to say
	// that there is none: a deployment may take everything away for a moment.
	rulesHeld = time.Minute
)

// rules is the robots.txt of a site: what it last said, as soon as anything was known.
type rules struct {
	name string // a file or an http(s) URL

	mu      sync.Mutex
	file    *robots.File // nil while nothing is known; another one whenever it says something else
	said    []byte       // what file was made of
	ruled   bool         // file was there, and is not the lack of one
	missing time.Time    // since when it is not, though it was; zero if it is
	tried   time.Time    // when Public could not read it
}

// refresh reads robots.txt. Where it cannot, what was last known counts; the
// error is that nothing ever was.
func (r *rules) refresh(ctx context.Context, now time.Time, log *slog.Logger) error {
	b, err := server.ReadRobots(ctx, r.name)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && r.file == nil:
		r.tried = now
		return fmt.Errorf("robots.txt: %w: as long as nobody knows what it forbids, nothing is published", err)
	case err != nil:
		log.Warn("robots.txt could not be read: what it said last goes on to count", "robots", redacted(r.name), "err", err)
		return nil
	case b == nil && r.ruled:
		if r.missing.IsZero() {
			r.missing = now
		}
		if now.Sub(r.missing) < rulesHeld {
			return nil
		}
	}
	if r.file == nil || !bytes.Equal(r.said, b) {
		r.file, r.said = robots.Parse(b), b
	}
	r.ruled, r.missing = b != nil, time.Time{}
	return nil
}

// current returns the rules as far as they are known.
func (r *rules) current() *robots.File {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file
}

// known returns the rules, or nil if there are none to be had. It reads them
// if nobody has.
func (r *rules) known(now time.Time, log *slog.Logger) *robots.File {
	r.mu.Lock()
	file, tried := r.file, r.tried
	r.mu.Unlock()
	if file != nil || now.Sub(tried) < rulesAgain && !tried.IsZero() {
		return file
	}
	if err := r.refresh(context.Background(), now, log); err != nil {
		log.Warn("nothing is public", "err", err)
	}
	return r.current()
}
