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

// endpointOf returns the address of a well-known engine, and an empty string
// for a name that is none. Engines that take IndexNow share what they get: one
// is enough where they keep that promise, and "indexnow" is their common door.
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

// engineNames are the short names that IndexNow.Engines may have.
func engineNames() []string { return []string{"bing", "indexnow", "naver", "seznam", "yandex", "yep"} }

// An IndexNow sends the URLs that changed to search engines
// (https://www.indexnow.org/documentation). The zero values of its optional
// fields are useful. Its methods may be called by many goroutines at once.
//
// A URL is sent at once if it was not sent within Debounce, else when that is
// over; however often it changes meanwhile, it is sent once. Where an engine's
// answer got lost nothing is sent to it for at least Debounce: so no URL is
// ever sent twice within Debounce, but for one batch where a process was killed.
//
// What Public forbids at the moment of sending is not sent. A deleted URL is
// sent all the same, also where a rule such as robots.txt withdrew it: while it
// was public engines may have learned of it by the sitemap, by robots.rdf or by
// being told; they are to drop it, and find the rule or the 404 when they look.
// But a page that was created and withdrawn again by a rule before this engine
// was told of it is not told either.
//
// Where the journal does not reach back to what an engine was told last (it had
// to begin a new epoch, or it has forgotten more than this engine took in),
// what it still has is sent as always, and then every page once: none can be
// shown not to have changed. What cannot be known then, and so is not sent, is
// what went in the meantime without leaving a change that can be read. Where
// the journal itself was lost, and its notes with it, every engine is a new one
// and begins with what changes next: see SendAll.
//
// Not sent either: pages that name another page as canonical, what does not
// lie below Base, and the key's own file.
type IndexNow struct {
	// Journal is the site's. Its notes below "indexnow/" hold what is owed.
	Journal *server.Journal

	// Base is the site's base URL, ending in "/".
	Base string

	// Engines are short names, see engineNames, or URLs of endpoints.
	Engines []string

	// Public says which URLs may be told to anybody now; nil means all.
	Public func(url string) bool

	// Ready reports whether Public's answers count already; nil means that they
	// do. Until then nothing is sent. The Publisher's Ready is made for it.
	Ready func() bool

	// MinSignificance is how much of a page's main text an update must have
	// changed to be sent, from 0 to 1. Zero means 0.01; negative means that
	// every change is sent. An update of unknown significance is always sent.
	MinSignificance float64

	// Debounce is the shortest time between two sendings of one URL to one
	// engine. Zero means 10 minutes.
	Debounce time.Duration

	// MaxBatch bounds the URLs in one sending, 1 to 10,000. Zero means 10,000.
	MaxBatch int

	// SendAll says that an engine that is new to this journal is told of all
	// that is present. Else it is told of what changes from then on. Set it
	// where the journal is made anew from time to time, as in a cache that may
	// be emptied, and no change may be missed.
	SendAll bool

	// Key is the key to use, 8 to 128 letters, digits and dashes. Empty means
	// one that is made once and kept in the journal.
	Key string

	// KeyDir is the directory that the web server serves at Base. The file that
	// proves the key is written into it. Empty means that it is served
	// otherwise: see ServeHTTP.
	KeyDir string

	// AutoRotate says that a burned key is replaced without asking, at most
	// once a day.
	AutoRotate bool

	HTTP *http.Client // only its Transport is used; nil means http.DefaultTransport
	Log  *slog.Logger // nil means silence
	Now  func() time.Time

	once    sync.Once
	initErr error
	path    string // of Base
	host    string // of Base
	engines []*engine
	room    int // the most URLs that an engine remembers

	keyMu     sync.Mutex // guards key and keyLoaded
	key       key
	keyLoaded bool
	fileMu    sync.Mutex // held by whoever writes the key's file

	kickMu sync.Mutex // guards what follows
	kicked context.Context
	kickIt context.CancelFunc
}

const (
	maxBatch = 10_000  // URLs in one sending, by the specification
	maxBody  = 4 << 20 // bytes of URLs in one sending

	// defaultRoom bounds what an engine remembers, owed and recently sent
	// together, in URLs: some 30 MB. When it is full the engine's cursor waits.
	defaultRoom = 100_000

	// gather is how long Run lets changes come together before it takes them in.
	gather = 2 * time.Second

	// again is how long Run waits after the journal failed.
	again = time.Minute

	// readyAgain is when Run asks again whether it may send.
	readyAgain = 2 * time.Second
)

func (s *IndexNow) now() time.Time          { return clock.Now(s.Now) }
func (s *IndexNow) log() *slog.Logger       { return cmp.Or(s.Log, slog.New(slog.DiscardHandler)) }
func (s *IndexNow) debounce() time.Duration { return cmp.Or(max(s.Debounce, 0), 10*time.Minute) }
func (s *IndexNow) maxBatch() int           { return min(cmp.Or(max(s.MaxBatch, 0), maxBatch), maxBatch) }

func (s *IndexNow) ready() bool { return s.Ready == nil || s.Ready() }

// init checks the configuration once.
func (s *IndexNow) init() error {
	s.once.Do(func() {
		s.kicked, s.kickIt = context.WithCancel(context.Background())
		if s.room == 0 {
			s.room = defaultRoom
		}
		u, err := url.Parse(s.Base)
		switch {
		case s.Journal == nil:
			s.initErr = errors.New("indexnow: no journal")
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.HasSuffix(s.Base, "/"):
			s.initErr = fmt.Errorf("indexnow: base %.200q: want http://HOST/ or https://HOST/, ending in a slash", s.Base)
		case s.Key != "" && !validKey(s.Key):
			s.initErr = errors.New("indexnow: key: want 8 to 128 letters, digits and dashes")
		case len(s.Engines) == 0:
			s.initErr = errors.New("indexnow: no engine: name one of " + strings.Join(engineNames(), ", ") + ", or a URL")
		}
		if s.initErr != nil {
			return
		}
		s.path, s.host = u.Path, u.Host
		seen := make(map[string]bool)
		for _, name := range s.Engines {
			e, err := s.newEngine(name)
			if err != nil {
				s.initErr = err
				return
			}
			if !seen[e.name] {
				seen[e.name] = true
				s.engines = append(s.engines, e)
			}
		}
	})
	return s.initErr
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
	return &engine{s: s, name: name, endpoint: endpoint, prefix: "indexnow/" + url.QueryEscape(name) + "/"}, nil
}

// kick makes engines that wait look again at once.
func (s *IndexNow) kick() {
	s.kickMu.Lock()
	defer s.kickMu.Unlock()
	s.kickIt()
	s.kicked, s.kickIt = context.WithCancel(context.Background())
}

func (s *IndexNow) kicks() context.Context {
	s.kickMu.Lock()
	defer s.kickMu.Unlock()
	return s.kicked
}

// Run sends what changes until ctx ends; then it returns nil, once requests
// under way have been answered or 5 s have passed. It returns an error if the
// configuration is wrong or the journal is closed; whatever else fails is
// logged, shown in Status and tried again.
func (s *IndexNow) Run(ctx context.Context) error {
	if err := s.init(); err != nil {
		return err
	}
	errs := make([]error, len(s.engines))
	var owned sync.WaitGroup
	for i, e := range s.engines {
		owned.Go(func() { errs[i] = e.run(ctx) })
	}
	owned.Wait()
	return errors.Join(errs...)
}

// A Result is what one Turn did.
type Result struct {
	Changes int `json:"changes"` // taken in, for all engines together
	Batches int `json:"batches"` // that an engine accepted
	Sent    int `json:"sent"`    // URLs in them
	Dropped int `json:"dropped"` // URLs that an engine refused for good
	Pending int `json:"pending"` // URLs that are still owed to an engine

	// Failed has a line for people about each engine that took nothing when
	// it was asked, or is not to be asked yet.
	Failed []string `json:"failed,omitempty"`
}

// Turn takes new changes in and sends what is due, once: the work of a process
// that runs from time to time. What is not due yet is left for a later Turn.
// An engine that fails is no error, see Result.Failed.
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
	st := e.status(e.s.now())
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
	log := e.s.log().With("engine", e.name)
	for {
		kicked := e.s.kicks()
		more, err := e.step(ctx)
		switch {
		case ctx.Err() != nil:
			if err = e.settle(); err != nil {
				log.Error("indexnow: what was sent last could not be recorded: it will be sent again", "err", err)
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

// step takes in what there is and sends one batch. It reports whether there
// may be more to do at once.
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

// await blocks until there is something to do: the journal has news, a time
// has come, or somebody kicks.
func (e *engine) await(ctx context.Context, kicked context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(kicked, cancel)()
	if at := e.nextAt(e.s.now()); !at.IsZero() {
		t := time.AfterFunc(at.Sub(e.s.now()), cancel)
		defer t.Stop()
	}
	if e.full() {
		<-inner.Done()
		return nil
	}
	err := e.s.Journal.Wait(inner, e.state.Cursor)
	if inner.Err() != nil {
		return nil
	}
	if err == nil {
		pause.For(inner, gather)
	}
	return err
}

// significant reports whether a change is worth sending.
func (s *IndexNow) significant(c protocol.Change) bool {
	if c.Op != protocol.Update {
		return true
	}
	share, known := c.Significance.Share()
	least := s.MinSignificance
	if least == 0 {
		least = 0.01
	}
	return !known || share >= least
}

// listed reports whether a present item is one to send: no other page stands
// for it.
func listed(it protocol.Item) bool { return it.Canonical == "" || it.Canonical == it.URL }

// ours reports whether a URL may be sent at all.
func (s *IndexNow) ours(url string, k key) bool {
	return strings.HasPrefix(url, s.Base) && !s.isKeyURL(url, k)
}
