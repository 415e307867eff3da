package agent

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
)

// Options are bounds. Each comment ends with the value that zero means.
type Options struct {
	// Command starts a process that runs a program: the path of an executable
	// that calls Main, and ProcessName.
	Command []string

	PerSender int // programs of one sender; a new one replaces the oldest. 8.
	Most      int // programs in all; one that two have sent counts twice. 64.

	Running  int // programs running at a time. Half of the processors, at least 1.
	Resident int // idle processes kept for the next change. 4.

	Memory int64         // of WebAssembly, in bytes. 64 MiB.
	Time   time.Duration // for an answer. 2 s.
	Load   time.Duration // to compile a program, and to start it. 30 s.
	Idle   time.Duration // after which a process without work ends. 1 minute.

	// After this many Failures without an answer between them a program is
	// disabled for Penalty, for the sender for whom it failed. 5, and 1 hour.
	Failures int
	Penalty  time.Duration

	Logger *slog.Logger
	Now    func() time.Time
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		to *int
		is int
	}{{&o.PerSender, 8}, {&o.Most, 64}, {&o.Running, max(1, runtime.NumCPU()/2)}, {&o.Resident, 4}, {&o.Failures, 5}} {
		if *d.to <= 0 {
			*d.to = d.is
		}
	}
	for _, d := range []struct {
		to *time.Duration
		is time.Duration
	}{{&o.Time, 2 * time.Second}, {&o.Load, 30 * time.Second}, {&o.Idle, time.Minute}, {&o.Penalty, time.Hour}} {
		if *d.to <= 0 {
			*d.to = d.is
		}
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// A Host stores programs in a directory and runs them. It is a caller.Agents;
// its methods may be called by many goroutines at once. Close ends its processes.
type Host struct {
	dir  string
	opts Options

	running chan struct{} // a semaphore of Options.Running slots

	mu       sync.Mutex
	turns    map[string]chan struct{} // a semaphore of one slot for each sender
	programs map[protocol.Digest]*record
	idle     []*worker // the longest unused first
	answers  answers
	stats    Stats
	closed   bool

	reap    chan struct{} // closed by Close
	reaping bool
	owned   sync.WaitGroup
}

// A key is a sender and its program: two senders of the same program may see
// different pages, and its memory must not carry any from one to the other.
type key struct {
	who     string
	program protocol.Digest
}

// Open opens the directory of programs, and creates it if it does not exist.
func Open(dir string, o Options) (*Host, error) {
	o = o.withDefaults()
	h := &Host{dir: dir, opts: o, running: make(chan struct{}, o.Running), reap: make(chan struct{})}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open agents: %w", err)
	}
	var err error
	if h.programs, err = readRecords(dir); err != nil {
		return nil, fmt.Errorf("open agents %s: %w", dir, err)
	}
	return h, nil
}

// Close ends all processes, and waits for them. Running calls fail.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	close(h.reap)
	idle := h.idle
	h.idle = nil
	h.mu.Unlock()
	for _, w := range idle {
		w.stop()
	}
	for range cap(h.running) { // waits for running calls, which have a time limit
		h.running <- struct{}{}
	}
	h.owned.Wait()
	return nil
}

var errClosed = errors.New("agents: closed")

// Keep stores a program for a sender after it has been compiled and started once. The
// error for a faulty program wraps caller.ErrProgram; that for too many programs,
// caller.ErrNoRoom.
func (h *Host) Keep(ctx context.Context, who string, program []byte) (protocol.Digest, error) {
	if len(program) > maxProgram {
		return protocol.Digest{}, fmt.Errorf("%w: it has %d bytes, more than %d", caller.ErrProgram, len(program), maxProgram)
	}
	d := protocol.Sum(program)
	if r, err := h.known(who, d); r != nil && (err != nil || h.intact(d)) {
		return d, err
	}
	leave, err := h.enter(ctx, who)
	if err != nil {
		return d, err
	}
	defer leave()
	k := key{who, d}
	w, err := newWorker(ctx, h.opts.Command, k, program, h.loading(k))
	if err != nil {
		h.forget(k)
		var f *failure
		if errors.As(err, &f) {
			return d, fmt.Errorf("%w: %s", caller.ErrProgram, f.why)
		}
		return d, err
	}
	if err := h.store(who, d, program); err != nil {
		w.stop()
		return d, err
	}
	h.rest(w)
	return d, nil
}

// Has returns nil if a program may run for who, and else the reason why not.
func (h *Host) Has(who string, program protocol.Digest) error {
	r, err := h.known(who, program)
	if r == nil {
		return errors.New("no program with that digest is stored for you: send it to the agents door first")
	}
	return err
}

// Run runs a program of the sender who on a change. An error other than that of ctx
// is a fault of the program, or says that it is not stored.
func (h *Host) Run(ctx context.Context, who string, program protocol.Digest, c *protocol.Change, page, before []byte) (caller.Verdict, error) {
	k := key{who, program}
	if err := h.Has(who, program); err != nil {
		return caller.Verdict{}, err
	}
	q := question(c, page, before)
	asked := asking{k, protocol.Sum(q)}
	h.mu.Lock()
	v, ok := h.answers.get(asked)
	if ok {
		h.stats.Shared++
	}
	h.mu.Unlock()
	if ok {
		return v, nil
	}
	leave, err := h.enter(ctx, who)
	if err != nil {
		return caller.Verdict{}, err
	}
	defer leave()
	if err := h.Has(who, program); err != nil { // it may have failed during the wait
		return caller.Verdict{}, err
	}
	h.mu.Lock()
	v, ok = h.answers.get(asked) // another call may have cached the answer meanwhile
	if ok {
		h.stats.Shared++
	}
	h.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err = h.run(ctx, k, q)
	h.count(err)
	if ctx.Err() != nil || errors.Is(err, errClosed) {
		return caller.Verdict{}, err
	}
	var f *failure
	if errors.As(err, &f) {
		return v, h.failed(k, f)
	} else if err != nil {
		return v, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.programs[program]; r != nil {
		delete(r.failures, who)
	}
	h.answers.put(asked, v)
	return v, nil
}

// Stats counts what a Host has done since it was opened.
type Stats struct {
	Programs int   `json:"programs"` // stored now, counted as for Options.Most
	Runs     int64 `json:"runs"`     // calls of programs
	Shared   int64 `json:"shared"`   // questions answered from the cache
	Failed   int64 `json:"failed"`   // runs without an answer
}

// Stats returns the current counts.
func (h *Host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stats
	s.Programs = h.kept()
	return s
}

func (h *Host) count(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Runs++
	if err != nil {
		h.stats.Failed++
	}
}

// run sends a question to a worker. The caller holds a slot: see enter.
func (h *Host) run(ctx context.Context, k key, q []byte) (caller.Verdict, error) {
	w, err := h.worker(ctx, k)
	if err != nil {
		return caller.Verdict{}, err
	}
	answer, alive, err := w.ask(ctx, q, h.opts.Time)
	if !alive {
		w.stop()
	} else {
		h.rest(w)
	}
	if err != nil {
		return caller.Verdict{}, err
	}
	v, err := verdict(answer)
	if err != nil {
		return v, &failure{err.Error()}
	}
	return v, nil
}

// enter waits for a running slot. A sender has one at a time, so that a sender with
// many questions waits behind its own, and does not delay others.
func (h *Host) enter(ctx context.Context, who string) (leave func(), err error) {
	h.mu.Lock()
	turn := h.turns[who]
	if turn == nil { // few senders may upload programs: the map stays small
		turn = make(chan struct{}, 1)
		if h.turns == nil {
			h.turns = make(map[string]chan struct{})
		}
		h.turns[who] = turn
	}
	h.mu.Unlock()
	refused := func() error { return cmp.Or(ctx.Err(), errClosed) }
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, refused()
	case <-h.reap:
		return nil, refused()
	}
	select {
	case h.running <- struct{}{}:
	case <-ctx.Done():
		<-turn
		return nil, refused()
	case <-h.reap:
		<-turn
		return nil, refused()
	}
	leave = func() {
		<-h.running
		<-turn
	}
	if ctx.Err() != nil || h.ended() { // several cases may have been ready
		leave()
		return nil, refused()
	}
	return leave, nil
}

// ended reports whether Close was called.
func (h *Host) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// worker returns a process that has loaded the program: an idle one, or a new one.
func (h *Host) worker(ctx context.Context, k key) (*worker, error) {
	h.mu.Lock()
	for i, w := range h.idle {
		if w.key == k {
			h.idle = append(h.idle[:i], h.idle[i+1:]...)
			h.mu.Unlock()
			return w, nil
		}
	}
	h.mu.Unlock()
	program, err := os.ReadFile(filepath.Join(h.dir, name(k.program)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("load agent: %w", err)
	}
	if protocol.Sum(program) != k.program {
		return nil, &failure{"its file is damaged: send it again"}
	}
	return newWorker(ctx, h.opts.Command, k, program, h.loading(k))
}

// rest puts a worker into the idle list for the next question.
func (h *Host) rest(w *worker) {
	w.used = h.opts.Now()
	h.mu.Lock()
	var gone []*worker
	if h.closed {
		gone = append(gone, w)
	} else {
		h.idle = append(h.idle, w)
	}
	for len(h.idle) > h.opts.Resident {
		gone = append(gone, h.idle[0])
		h.idle = h.idle[1:]
	}
	if !h.reaping && !h.closed {
		h.reaping = true
		h.owned.Go(h.reaper)
	}
	h.mu.Unlock()
	for _, w := range gone {
		w.stop()
	}
}

// reaper ends processes that have been idle for Options.Idle, until none is left.
func (h *Host) reaper() {
	tick := time.NewTicker(h.opts.Idle)
	defer tick.Stop()
	for {
		select {
		case <-h.reap:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		var gone []*worker
		for len(h.idle) > 0 && h.opts.Now().Sub(h.idle[0].used) >= h.opts.Idle {
			gone = append(gone, h.idle[0])
			h.idle = h.idle[1:]
		}
		done := len(h.idle) == 0
		if done {
			h.reaping = false
		}
		h.mu.Unlock()
		for _, w := range gone {
			w.stop()
		}
		if done {
			return
		}
	}
}

func (h *Host) loading(k key) loading {
	return loading{Cache: h.cache(k), Memory: h.opts.Memory, Time: h.opts.Time, Within: h.opts.Load}
}

// cache returns the directory of a program's compiled code. Each sender has its own:
// else the compile time would reveal that another had sent the program before.
func (h *Host) cache(k key) string {
	who := protocol.Sum([]byte(k.who))
	return filepath.Join(h.caches(k.program), hex.EncodeToString(who[:8]))
}

// caches returns the parent of the cache directories of all senders of a program.
func (h *Host) caches(d protocol.Digest) string { return filepath.Join(h.dir, name(d)+".compiled") }
