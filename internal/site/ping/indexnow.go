package ping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/clock"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
)

// endpointOf returns the endpoint of a well-known engine, and an empty string
// for an unknown name. IndexNow engines share the URLs that they receive: if they
// keep that promise, one is enough, and "indexnow" is their common endpoint.
func endpointOf(name string) string {
	switch name {
	case "bing":
		return "https://www.bing.com/indexnow"
	case "indexnow":
		return "https://api.indexnow.org/indexnow"
	case "naver":
		return "https://searchadvisor.naver.com/indexnow"
	case "seznam":
		return "https://search.seznam.cz/indexnow"
	case "yandex":
		return "https://yandex.com/indexnow"
	case "yep":
		return "https://indexnow.yep.com/indexnow"
	}
	return ""
}

// engineNames returns the short names that IndexNowOptions.Engines may have.
func engineNames() []string { return []string{"bing", "indexnow", "naver", "seznam", "yandex", "yep"} }

// An IndexNow sends the URLs that changed to search engines
// (https://www.indexnow.org/documentation). Its methods may be called by many
// goroutines at once.
//
// A URL is sent at once if it was not sent within Debounce, else when Debounce has
// passed; however often it changes meanwhile, it is sent once. If an engine's
// response was lost, nothing is sent to it for at least Debounce: so no URL is
// ever sent twice within Debounce, except for one batch after a kill.
//
// A page that Public forbids at the moment of sending is not sent. A deleted URL
// is sent in any case, even if a rule such as robots.txt withdrew it: while it was
// public, engines may have learned of it from the sitemap, robots.rdf or an
// earlier notice; they are to drop it, and find the rule or the 404 when they
// fetch it. But a page that a rule withdrew before this engine was sent its
// creation is not sent at all.
//
// If the journal no longer reaches back to the engine's cursor (a new epoch
// began, or the journal has forgotten changes that this engine had not read), the
// changes that it still has are sent as usual, and then every page once, since no
// page can be shown to be unchanged. Deletions in the meantime that left no
// readable change are unknown and so not sent. If the journal itself was lost, and
// its notes with it, every engine is new and begins with the next change: see
// SendAll.
//
// Also not sent: pages that name another page as canonical, URLs outside Base,
// and the key's own file.
type IndexNow struct {
	Options IndexNowOptions

	once    sync.Once
	initErr error
	key     keyring
	engines []*engine
}

// IndexNowOptions configure an [IndexNow]. The zero values of optional fields are useful.
type IndexNowOptions struct {
	// Journal is the site's. Its notes below "indexnow/" hold the pending URLs.
	Journal *server.Journal

	// Base is the site's base URL, ending in "/".
	Base string

	// Engines are short names, see engineNames, or URLs of endpoints.
	Engines []string

	// Public reports whether a URL is public now; nil means that all are.
	Public func(url string) bool

	// Ready reports whether Public's answers are valid yet; nil means that they
	// are. Until then nothing is sent. The Publisher's Ready is made for it.
	Ready func() bool

	// MinSignificance is how much of a page's main text an update must have
	// changed to be sent, from 0 to 1. Zero means 0.01; negative means that
	// every change is sent. An update of unknown significance is always sent.
	MinSignificance float64

	// Debounce is the minimum interval between two sendings of one URL to one
	// engine. Zero means 10 minutes.
	Debounce time.Duration

	// MaxBatch bounds the URLs in one batch, 1 to 10,000. Zero means 10,000.
	MaxBatch int

	// SendAll sends all present pages to an engine that is new to this journal.
	// Without it only later changes are sent. Set it if the journal is rebuilt from
	// time to time, as in a cache that may be emptied, and no change may be missed.
	SendAll bool

	// Key is the key to use, 8 to 128 letters, digits and dashes. Empty means
	// a key that is generated once and stored in the journal.
	Key string

	// KeyDir is the directory that the web server serves at Base. The file that
	// proves the key is written into it. Empty means that it is served
	// in another way: see ServeHTTP.
	KeyDir string

	// AutoRotate replaces a burned key automatically, at most once a day.
	AutoRotate bool

	HTTP *http.Client // only its Transport is used; nil means http.DefaultTransport
	Log  *slog.Logger // nil means silence
	Now  func() time.Time

	room int // the most URLs that an engine remembers, defaultRoom if zero
}

const (
	maxBatch = 10_000  // URLs in one batch, by the specification
	maxBody  = 4 << 20 // bytes of URLs in one batch

	// defaultRoom bounds the URLs that an engine remembers, pending and recently
	// sent together: some 30 MB. When it is full, the engine's cursor waits.
	defaultRoom = 100_000

	// gather is how long Run lets changes gather before it reads them.
	gather = 2 * time.Second

	// again is how long Run waits after the journal failed.
	again = time.Minute

	// readyAgain is the interval at which Run calls Ready again.
	readyAgain = 2 * time.Second
)

func (o *IndexNowOptions) now() time.Time          { return clock.Now(o.Now) }
func (o *IndexNowOptions) log() *slog.Logger       { return cmp.Or(o.Log, slog.New(slog.DiscardHandler)) }
func (o *IndexNowOptions) debounce() time.Duration { return cmp.Or(max(o.Debounce, 0), 10*time.Minute) }

// init checks the configuration once.
func (s *IndexNow) init() error {
	s.once.Do(func() { s.initErr = s.open() })
	return s.initErr
}

func (s *IndexNow) open() error {
	o := &s.Options
	o.room = cmp.Or(o.room, defaultRoom)
	u, err := url.Parse(o.Base)
	switch {
	case o.Journal == nil:
		return errors.New("indexnow: no journal")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.HasSuffix(o.Base, "/"):
		return fmt.Errorf("indexnow: base %.200q: want http://HOST/ or https://HOST/, ending in a slash", o.Base)
	case len(o.Engines) == 0:
		return errors.New("indexnow: no engine: name one of " + strings.Join(engineNames(), ", ") + ", or a URL")
	}
	if err := s.Check(); err != nil {
		return err
	}
	s.key.open(o, u)
	seen := make(map[string]bool)
	for _, name := range o.Engines {
		e, err := s.newEngine(name)
		if err != nil {
			return err
		}
		if !seen[e.name] {
			seen[e.name] = true
			s.engines = append(s.engines, e)
		}
	}
	return nil
}

// Check reports what is wrong with the key and the names of engines; such an error begins with the option that sets them.
func (s *IndexNow) Check() error {
	if key := s.Options.Key; key != "" && !validKey(key) {
		return errors.New("indexnow-key: want 8 to 128 letters, digits and dashes")
	}
	for _, name := range s.Options.Engines {
		if _, err := s.newEngine(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *IndexNow) newEngine(name string) (*engine, error) {
	endpoint := endpointOf(name)
	if endpoint == "" {
		if _, err := webURL(name); err != nil {
			return nil, fmt.Errorf("indexnow: engine %.200q: want one of %s, or a URL: %w", name, strings.Join(engineNames(), ", "), err)
		}
		endpoint = name
		for _, known := range engineNames() {
			if endpointOf(known) == endpoint {
				name = known
			}
		}
	}
	return &engine{o: &s.Options, key: &s.key, name: name, endpoint: endpoint, prefix: "indexnow/" + url.QueryEscape(name) + "/"}, nil
}

// Run sends changes until ctx ends; then it returns nil, once requests in
// flight have been answered or 5 s have passed. It returns an error if the
// configuration is wrong or the journal is closed; any other failure is
// logged, shown in Status and retried.
func (s *IndexNow) Run(ctx context.Context) error {
	if err := s.init(); err != nil {
		return err
	}
	return runAll(ctx, s.engines)
}

// A Result is what one Turn did.
type Result struct {
	Changes int `json:"changes"` // read from the journal, for all engines together
	Batches int `json:"batches"` // accepted batches
	Sent    int `json:"sent"`    // URLs in them
	Dropped int `json:"dropped"` // URLs that an engine refused for good
	Pending int `json:"pending"` // URLs yet to be sent to an engine

	// Failed has a line for people about each engine that refused a batch, or
	// whose retry time has not come.
	Failed []string `json:"failed,omitempty"`
}

// Turn reads new changes and sends the URLs that are due, once, for a process that
// runs from time to time. URLs that are not due yet are left for a later Turn.
// A failing engine is no error, see Result.Failed.
func (s *IndexNow) Turn(ctx context.Context) (Result, error) {
	if err := s.init(); err != nil {
		return Result{}, err
	}
	results, errs := make([]Result, len(s.engines)), make([]error, len(s.engines))
	var owned sync.WaitGroup
	for i, e := range s.engines {
		owned.Go(func() { results[i], errs[i] = e.once(ctx) })
	}
	owned.Wait()
	var sum Result
	for _, r := range results {
		sum.Changes += r.Changes
		sum.Batches += r.Batches
		sum.Sent += r.Sent
		sum.Dropped += r.Dropped
		sum.Pending += r.Pending
		sum.Failed = append(sum.Failed, r.Failed...)
	}
	return sum, errors.Join(errs...)
}

// once is one turn of an engine.
func (e *engine) once(ctx context.Context) (Result, error) {
	e.turn.Lock()
	defer e.turn.Unlock()
	var r Result
	err := e.settle()
	for more := true; more && err == nil; {
		var n int
		if n, err = e.takeIn(ctx); err != nil {
			break
		}
		r.Changes += n
		var did Outcome
		did, more, err = e.send(ctx)
		switch {
		case did.At.IsZero():
		case did.accepted():
			r.Batches++
			r.Sent += did.URLs
		case did.Dropped:
			r.Dropped++
		}
		more = more || err == nil && n > 0
	}
	st := e.status(e.o.now())
	r.Pending = st.Pending
	if st.Trouble != "" {
		r.Failed = []string{e.name + ": " + st.Trouble}
	}
	if err != nil {
		err = fmt.Errorf("indexnow %s: %w", e.name, err)
	}
	return r, err
}

// run is the loop of an engine.
func (e *engine) run(ctx context.Context) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	log := e.o.log().With("engine", e.name)
	for {
		kicked := e.key.kicks()
		more, err := e.step(ctx)
		switch {
		case ctx.Err() != nil:
			if err = e.settle(); err != nil {
				log.Error("indexnow: the last batch could not be recorded: it will be sent again", "err", err)
			}
			return nil
		case errors.Is(err, fs.ErrClosed):
			return fmt.Errorf("indexnow %s: %w", e.name, err)
		case err != nil:
			log.Error("indexnow: the journal could not be used", "err", err, "again_in", again)
			pause.For(ctx, again)
		case !more:
			if err := e.await(ctx, kicked); errors.Is(err, fs.ErrClosed) {
				return fmt.Errorf("indexnow %s: %w", e.name, err)
			}
		}
	}
}

// step reads new changes and sends one batch. It reports whether there may be
// more to do at once.
func (e *engine) step(ctx context.Context) (more bool, err error) {
	if err := e.settle(); err != nil {
		return false, err
	}
	if _, err := e.takeIn(ctx); err != nil {
		return false, err
	}
	_, more, err = e.send(ctx)
	return more, err
}

// await blocks until there is work: the journal has changes, a due time has
// come, or kick was called.
func (e *engine) await(ctx context.Context, kicked context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(kicked, cancel)()
	if at := e.nextAt(e.o.now()); !at.IsZero() {
		t := time.AfterFunc(at.Sub(e.o.now()), cancel)
		defer t.Stop()
	}
	if e.full() {
		<-inner.Done()
		return nil
	}
	err := e.o.Journal.Wait(inner, e.state.Cursor)
	if inner.Err() != nil {
		return nil
	}
	if err == nil {
		pause.For(inner, gather)
	}
	return err
}

// significant reports whether a change is worth sending.
func (e *engine) significant(c protocol.Change) bool {
	if c.Op != protocol.Update {
		return true
	}
	share, known := c.Significance.Share()
	return !known || share >= cmp.Or(e.o.MinSignificance, 0.01)
}

// listed reports whether a present item is to be sent: it names no other page
// as canonical.
func listed(it protocol.Item) bool { return it.Canonical == "" || it.Canonical == it.URL }
