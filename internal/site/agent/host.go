package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
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
	Load   time.Duration // to compile a program, and to start it. 2 minutes: a program in Go needs 3 s, and on a busy machine many times that.
	Idle   time.Duration // after which a process without work ends. 1 minute.

	// After this many Failures without an answer between them a program is
	// disabled for Penalty, for the sender for whom it failed. 5, and 1 hour.
	Failures int
	Penalty  time.Duration

	Logger *slog.Logger
	Now    func() time.Time
}

func (o Options) withDefaults() Options {
	o.PerSender = cmp.Or(max(o.PerSender, 0), 8)
	o.Most = cmp.Or(max(o.Most, 0), 64)
	o.Running = cmp.Or(max(o.Running, 0), max(1, runtime.NumCPU()/2))
	o.Resident = cmp.Or(max(o.Resident, 0), 4)
	o.Failures = cmp.Or(max(o.Failures, 0), 5)
	o.Time = cmp.Or(max(o.Time, 0), 2*time.Second)
	o.Load = cmp.Or(max(o.Load, 0), 2*time.Minute)
	o.Idle = cmp.Or(max(o.Idle, 0), time.Minute)
	o.Penalty = cmp.Or(max(o.Penalty, 0), time.Hour)
	o.Memory = cmp.Or(max(o.Memory, 0), 64<<20)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// A Host stores programs in a directory and runs them. It is a caller.Agents;
// its methods may be called by many goroutines at once. Close ends its processes.
type Host struct {
	opts     Options
	programs programs
	slots    slots
	workers  workers
	answers  answers

	runs, failed atomic.Int64 // see Stats
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
	h := &Host{opts: o, slots: slots{running: make(chan struct{}, o.Running), closed: make(chan struct{})}}
	h.programs, h.workers = programs{dir: dir, opts: &h.opts}, workers{opts: &h.opts, closed: h.slots.closed}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open agents: %w", err)
	}
	var err error
	if h.programs.records, err = readRecords(dir); err != nil {
		return nil, fmt.Errorf("open agents %s: %w", dir, err)
	}
	return h, nil
}

// Close ends all processes, and waits for them. Running calls fail.
func (h *Host) Close() error {
	if h.workers.close() {
		for range cap(h.slots.running) { // waits for running calls, which have a time limit
			h.slots.running <- struct{}{}
		}
		h.workers.owned.Wait()
	}
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
	if r, err := h.programs.known(who, d); r != nil && (err != nil || h.programs.intact(d)) {
		return d, err
	}
	leave, err := h.slots.enter(ctx, who)
	if err != nil {
		return d, err
	}
	defer leave()
	k := key{who, d}
	w, err := h.start(ctx, k, program)
	if err != nil {
		h.programs.forget(k)
		var f *failure
		if errors.As(err, &f) {
			return d, fmt.Errorf("%w: %s", caller.ErrProgram, f.why)
		}
		return d, err
	}
	if err := h.programs.store(who, d, program); err != nil {
		w.stop()
		return d, err
	}
	h.workers.put(w)
	return d, nil
}

// Has returns nil if a program may run for who, and else the reason why not.
func (h *Host) Has(who string, program protocol.Digest) error {
	r, err := h.programs.known(who, program)
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
	if v, ok := h.answers.get(asked); ok {
		return v, nil
	}
	leave, err := h.slots.enter(ctx, who)
	if err != nil {
		return caller.Verdict{}, err
	}
	defer leave()
	if err := h.Has(who, program); err != nil { // it may have failed during the wait
		return caller.Verdict{}, err
	}
	if v, ok := h.answers.get(asked); ok { // another call may have cached the answer meanwhile
		return v, nil
	}
	v, err := h.run(ctx, k, q)
	if h.runs.Add(1); err != nil {
		h.failed.Add(1)
	}
	if ctx.Err() != nil || errors.Is(err, errClosed) {
		return caller.Verdict{}, err
	}
	var f *failure
	if errors.As(err, &f) {
		return v, h.programs.failed(k, f)
	} else if err != nil {
		return v, err
	}
	h.programs.answered(k)
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
	return Stats{h.programs.count(), h.runs.Load(), h.answers.given.Load(), h.failed.Load()}
}

// run sends a question to a worker. The caller holds a slot.
func (h *Host) run(ctx context.Context, k key, q []byte) (caller.Verdict, error) {
	w, err := h.worker(ctx, k)
	if err != nil {
		return caller.Verdict{}, err
	}
	answer, alive, err := w.ask(ctx, q, h.opts.Time)
	if !alive {
		w.stop()
	} else {
		h.workers.put(w)
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

// worker returns a process that has loaded the program: an idle one, or a new one.
func (h *Host) worker(ctx context.Context, k key) (*worker, error) {
	if w := h.workers.take(k); w != nil {
		return w, nil
	}
	program, err := h.programs.read(k.program)
	if err != nil {
		return nil, err
	}
	return h.start(ctx, k, program)
}

// start starts a process that loads a program.
func (h *Host) start(ctx context.Context, k key, program []byte) (*worker, error) {
	return newWorker(ctx, h.opts.Command, k, program,
		loading{Cache: h.programs.cache(k), Memory: h.opts.Memory, Time: h.opts.Time, Within: h.opts.Load})
}
