package agent

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
)

// A record holds the senders and outages of a program. Records are stored in
// recordsFile, beside the programs, each of which is a file named by its digest.
type record struct {
	Senders map[string]time.Time `json:"senders"` // and when each sent it

	// Out has the senders for whom the program is disabled. A page that one sender
	// sees, and on which the program fails, does not concern the others.
	Out map[string]outage `json:"out,omitempty"`

	failures map[string]int // of each sender, since the last answer
}

// An outage says until when a program is disabled, and why.
type outage struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

const recordsFile = "programs.json"

func name(d protocol.Digest) string { return hex.EncodeToString(d[:]) + ".wasm" }

func readRecords(dir string) (map[protocol.Digest]*record, error) {
	records := make(map[protocol.Digest]*record)
	b, err := os.ReadFile(filepath.Join(dir, recordsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return records, nil
	} else if err != nil {
		return nil, err
	}
	var list map[string]*record
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", recordsFile, err)
	}
	for text, r := range list {
		d, err := protocol.ParseDigest(text)
		if err != nil || r == nil || len(r.Senders) == 0 {
			return nil, fmt.Errorf("%s: %q is not a valid record of a program", recordsFile, text)
		}
		records[d] = r
	}
	return records, nil
}

// write stores the records. mu is held.
func (h *Host) write() error {
	list := make(map[string]*record, len(h.programs))
	for d, r := range h.programs {
		list[d.String()] = r
	}
	b, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		panic("agent: encode records: " + err.Error()) // plain values always encode
	}
	return atomicfile.Write(filepath.Join(h.dir, recordsFile), string(b)+"\n", 0o600)
}

// known returns the record of a program of the sender who, nil if there is none, and
// an error if the program is disabled for who.
func (h *Host) known(who string, d protocol.Digest) (*record, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.programs[d]
	if !r.isOf(who) {
		return nil, nil
	}
	if out, ok := r.Out[who]; ok && h.opts.Now().Before(out.Until) {
		return r, fmt.Errorf("%w: disabled until %s: it failed %d times in a row; the last failure: %s",
			caller.ErrProgram, protocol.FormatDate(out.Until), h.opts.Failures, out.Reason)
	}
	return r, nil
}

// store stores a program that has been started successfully.
func (h *Host) store(who string, d protocol.Digest, program []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.programs[d]
	if len(h.of(who)) < h.opts.PerSender && h.kept() >= h.opts.Most && !r.isOf(who) {
		h.discard(key{who, d})
		return fmt.Errorf("%w: the limit of %d stored programs is reached", caller.ErrNoRoom, h.opts.Most)
	}
	if err := atomicfile.Write(filepath.Join(h.dir, name(d)), string(program), 0o600); err != nil {
		return fmt.Errorf("store agent: %w", err)
	}
	if r == nil {
		r = &record{Senders: make(map[string]time.Time)}
		h.programs[d] = r
	}
	r.Senders[who] = h.opts.Now()
	for mine := h.of(who); len(mine) > h.opts.PerSender; mine = mine[1:] {
		h.drop(who, mine[0])
	}
	if err := h.write(); err != nil {
		return fmt.Errorf("store agent: %w", err)
	}
	return nil
}

// isOf reports whether who has sent the program of a record, which may be nil.
func (r *record) isOf(who string) (ok bool) {
	if r != nil {
		_, ok = r.Senders[who]
	}
	return ok
}

// kept counts the programs of all senders, a shared program once for each: else a
// refusal for lack of room would reveal what others have sent. mu is held.
func (h *Host) kept() (n int) {
	for _, r := range h.programs {
		n += len(r.Senders)
	}
	return n
}

// of lists the programs of a sender, the oldest first. mu is held.
func (h *Host) of(who string) []protocol.Digest {
	mine := slices.Collect(maps.Keys(h.programs))
	mine = slices.DeleteFunc(mine, func(d protocol.Digest) bool { return !h.programs[d].isOf(who) })
	slices.SortFunc(mine, func(a, b protocol.Digest) int {
		return h.programs[a].Senders[who].Compare(h.programs[b].Senders[who])
	})
	return mine
}

// drop removes a program from a sender. mu is held.
func (h *Host) drop(who string, d protocol.Digest) {
	r := h.programs[d]
	delete(r.Senders, who)
	delete(r.failures, who)
	if len(r.Senders) == 0 {
		delete(h.programs, d)
		os.Remove(filepath.Join(h.dir, name(d))) // if this fails, the file remains, but not in the records
	}
	h.discard(key{who, d})
}

// discard removes the compiled code of a program for a sender. That of other senders,
// who may be loading it at this moment, stays, whether they are in the records or not.
func (h *Host) discard(k key) {
	os.RemoveAll(h.cache(k))
	os.Remove(h.caches(k.program)) // if it is empty
}

// intact reports whether the program's file has its digest.
func (h *Host) intact(d protocol.Digest) bool {
	b, err := os.ReadFile(filepath.Join(h.dir, name(d)))
	return err == nil && protocol.Sum(b) == d
}

// forget removes the compiled code of a program for a sender without a record of it.
func (h *Host) forget(k key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.programs[k.program].isOf(k.who) {
		h.discard(k)
	}
}

// failed records a failure of a program for a sender, and disables it for that sender
// after Options.Failures.
func (h *Host) failed(k key, f *failure) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := fmt.Errorf("%w: %s", caller.ErrProgram, f.why)
	r := h.programs[k.program]
	if r == nil {
		return err
	}
	if r.failures == nil {
		r.failures = make(map[string]int)
	}
	if r.failures[k.who]++; r.failures[k.who] < h.opts.Failures {
		return err
	}
	delete(r.failures, k.who)
	if r.Out == nil {
		r.Out = make(map[string]outage)
	}
	until := h.opts.Now().Add(h.opts.Penalty)
	maps.DeleteFunc(r.Out, func(_ string, out outage) bool { return !h.opts.Now().Before(out.Until) })
	r.Out[k.who] = outage{until, f.why}
	h.opts.Logger.Warn("agent disabled after repeated failures", "agent", k.program.String(), "sender", k.who, "until", until, "reason", f.why)
	if werr := h.write(); werr != nil {
		h.opts.Logger.Error("agents: records could not be written", "err", werr)
	}
	return err
}

// An asking is a sender, its program and a question.
type asking struct {
	key
	question protocol.Digest
}

const (
	mostAnswers     = 4096
	mostAnswerBytes = 16 << 20
)

// answers is a cache of the latest answers, oldest evicted first.
type answers struct {
	byAsking map[asking]caller.Verdict
	order    []asking // oldest first
	bytes    int
}

func (a *answers) get(q asking) (caller.Verdict, bool) {
	v, ok := a.byAsking[q]
	return v, ok
}

func (a *answers) put(q asking, v caller.Verdict) {
	if a.byAsking == nil {
		a.byAsking = make(map[asking]caller.Verdict)
	}
	if _, ok := a.byAsking[q]; ok {
		return
	}
	a.byAsking[q] = v
	a.order = append(a.order, q)
	a.bytes += len(v.Output)
	for len(a.order) > mostAnswers || a.bytes > mostAnswerBytes {
		a.bytes -= len(a.byAsking[a.order[0]].Output)
		delete(a.byAsking, a.order[0])
		a.order = a.order[1:]
	}
}
