package parleycaddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/doors"
)

// sites has the sites of this process, by the keys of their options, for as long as a config uses them. It belongs to no config: at a
// reload Caddy provisions the new config before it ends the old one, and a site whose options are equal in both goes on undisturbed,
// with all its streams. A site whose options have changed is another one: it waits for the state until the old one has closed it.
var sites = caddy.NewUsagePool()

// An app has the sites of one config.
type app struct {
	using map[string]used // by state
}

// A used site logs to where the config says.
type used struct {
	*site
	log *slog.Logger
}

// CaddyModule implements caddy.Module. Nothing has to be configured: a Handler makes the app.
func (*app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "parley", New: func() caddy.Module { return &app{using: map[string]used{}} }}
}

// use returns the site with the given options. It is not started.
func (a *app) use(o options, log *slog.Logger) (*site, error) {
	if u, ok := a.using[o.State]; ok {
		if u.key() != o.key() {
			return nil, fmt.Errorf("two sites with other options use the state %s: give each its own, or both the same options", o.State)
		}
		return u.site, nil
	}
	v, _, err := sites.LoadOrNew(o.key(), func() (caddy.Destructor, error) { return &site{options: o}, nil })
	if err != nil {
		return nil, err
	}
	a.using[o.State] = used{v.(*site), log}
	return v.(*site), nil
}

// Start starts the sites that do not run yet.
func (a *app) Start() error {
	for _, u := range a.using {
		u.start(u.log)
	}
	return nil
}

// Stop implements caddy.App. The servers may still be shutting down: Cleanup follows.
func (a *app) Stop() error { return nil }

// Cleanup ends the sites that no other config uses, and waits for them.
func (a *app) Cleanup() error {
	for _, u := range a.using {
		sites.Delete(u.key()) // Destruct returns no error
	}
	return nil
}

// A site is published from start to Destruct.
type site struct {
	options
	handler atomic.Pointer[slog.Handler] // where to log now
	owned   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	stop     context.CancelFunc
	notifier *doors.Notifier // nil while the state is not open
	requests int             // that notifier, or the one before it, is answering
	idle     chan struct{}   // if not nil: to be closed when there is none
}

// retryEvery is how long a site waits before it tries again, when it cannot be opened or has failed.
const retryEvery = 10 * time.Second

// start starts the site if it does not run yet, and makes it log to log.
func (s *site) start(log *slog.Logger) {
	handler := log.Handler()
	s.handler.Store(&handler)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.owned.Go(func() {
		log := slog.New(logger(func() slog.Handler { return *s.handler.Load() }))
		for again := true; again; again = pause.For(ctx, retryEvery) {
			if err := s.publish(ctx, log); err != nil && !errors.Is(err, context.Canceled) {
				log.Error("the site is not published", "base", s.Base, "err", err, "again_in", retryEvery)
			}
		}
	})
}

// end ends the site, without waiting for that.
func (s *site) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
}

// Destruct ends the site when no config uses it any more.
func (s *site) Destruct() error {
	s.end()
	s.owned.Wait()
	return nil
}

// open lets requests in.
func (s *site) open(n *doors.Notifier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifier = n
}

// enter returns the notifier that answers a request, which leaves it afterwards; nil if there is none now.
func (s *site) enter() *doors.Notifier {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notifier != nil {
		s.requests++
	}
	return s.notifier
}

func (s *site) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests--; s.requests == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// closeWait is how long requests may take to end.
const closeWait = 10 * time.Second

// close ends streams and long polls, with a bye that says where they stand, and waits for all requests.
func (s *site) close() {
	idle := make(chan struct{})
	s.mu.Lock()
	n := s.notifier
	if s.notifier = nil; s.requests == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	s.mu.Unlock()
	end, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	n.Close(end) // if it does not end in time, the connections are cut
	select {
	case <-idle:
	case <-end.Done():
	}
}

// A logger is a handler that another one stands behind, which a reload may replace: Caddy closes the logs of an old config.
type logger func() slog.Handler

func (l logger) Enabled(ctx context.Context, level slog.Level) bool { return l().Enabled(ctx, level) }

func (l logger) Handle(ctx context.Context, r slog.Record) error { return l().Handle(ctx, r) }

func (l logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logger(func() slog.Handler { return l().WithAttrs(attrs) })
}

func (l logger) WithGroup(name string) slog.Handler {
	return logger(func() slog.Handler { return l().WithGroup(name) })
}
