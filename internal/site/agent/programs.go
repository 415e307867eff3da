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
	"sync"
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

// programs are the stored programs, each in a file named by its digest, with the records of them. The methods may be
// called by many goroutines at once.
type programs struct {
	dir  string
	opts *Options

	mu      sync.Mutex // guards records, and their file
	records map[protocol.Digest]*record
}

// write stores the records. mu is held.
func (p *programs) write() error {
	list := make(map[string]*record, len(p.records))
	for d, r := range p.records {
		list[d.String()] = r
	}
	b, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		panic("agent: encode records: " + err.Error()) // plain values always encode
	}
	return atomicfile.Write(filepath.Join(p.dir, recordsFile), string(b)+"\n", 0o600)
}

// known returns the record of a program of the sender who, nil if there is none, and
// an error if the program is disabled for who.
func (p *programs) known(who string, d protocol.Digest) (*record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.records[d]
	if !r.isOf(who) {
		return nil, nil
	}
	if out, ok := r.Out[who]; ok && p.opts.Now().Before(out.Until) {
		return r, fmt.Errorf("%w: disabled until %s: it failed %d times in a row; the last failure: %s",
			caller.ErrProgram, protocol.FormatDate(out.Until), p.opts.Failures, out.Reason)
	}
	return r, nil
}

// store stores a program that has been started successfully.
func (p *programs) store(who string, d protocol.Digest, program []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.records[d]
	if len(p.of(who)) < p.opts.PerSender && p.kept() >= p.opts.Most && !r.isOf(who) {
		p.discard(key{who, d})
		return fmt.Errorf("%w: the limit of %d stored programs is reached", caller.ErrNoRoom, p.opts.Most)
	}
	if err := atomicfile.Write(p.path(d), string(program), 0o600); err != nil {
		return fmt.Errorf("store agent: %w", err)
	}
	if r == nil {
		r = &record{Senders: make(map[string]time.Time)}
		p.records[d] = r
	}
	r.Senders[who] = p.opts.Now()
	for mine := p.of(who); len(mine) > p.opts.PerSender; mine = mine[1:] {
		p.drop(who, mine[0])
	}
	if err := p.write(); err != nil {
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
func (p *programs) kept() (n int) {
	for _, r := range p.records {
		n += len(r.Senders)
	}
	return n
}

// of lists the programs of a sender, the oldest first. mu is held.
func (p *programs) of(who string) []protocol.Digest {
	mine := slices.Collect(maps.Keys(p.records))
	mine = slices.DeleteFunc(mine, func(d protocol.Digest) bool { return !p.records[d].isOf(who) })
	slices.SortFunc(mine, func(a, b protocol.Digest) int {
		return p.records[a].Senders[who].Compare(p.records[b].Senders[who])
	})
	return mine
}

// drop removes a program from a sender. mu is held.
func (p *programs) drop(who string, d protocol.Digest) {
	r := p.records[d]
	delete(r.Senders, who)
	delete(r.failures, who)
	if len(r.Senders) == 0 {
		delete(p.records, d)
		os.Remove(p.path(d)) // if this fails, the file remains, but not in the records
	}
	p.discard(key{who, d})
}

// discard removes the compiled code of a program for a sender. That of other senders,
// who may be loading it at this moment, stays, whether they are in the records or not.
func (p *programs) discard(k key) {
	os.RemoveAll(p.cache(k))
	os.Remove(p.caches(k.program)) // if it is empty
}

func (p *programs) path(d protocol.Digest) string {
	return filepath.Join(p.dir, hex.EncodeToString(d[:])+".wasm")
}

// cache returns the directory of a program's compiled code. Each sender has its own:
// else the compile time would reveal that another had sent the program before.
func (p *programs) cache(k key) string {
	who := protocol.Sum([]byte(k.who))
	return filepath.Join(p.caches(k.program), hex.EncodeToString(who[:8]))
}

// caches returns the parent of the cache directories of all senders of a program.
func (p *programs) caches(d protocol.Digest) string { return p.path(d) + ".compiled" }

// read returns a program. The error is a *failure if its file is damaged.
func (p *programs) read(d protocol.Digest) ([]byte, error) {
	b, err := os.ReadFile(p.path(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("load agent: %w", err)
	}
	if protocol.Sum(b) != d {
		return nil, &failure{"its file is damaged: send it again"}
	}
	return b, nil
}

// intact reports whether the program's file has its digest.
func (p *programs) intact(d protocol.Digest) bool {
	_, err := p.read(d)
	return err == nil
}

// forget removes the compiled code of a program for a sender without a record of it.
func (p *programs) forget(k key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.records[k.program].isOf(k.who) {
		p.discard(k)
	}
}

// count returns how many programs are stored, as kept counts them.
func (p *programs) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept()
}

// answered records that a program has answered a sender's question.
func (p *programs) answered(k key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.records[k.program]; r != nil {
		delete(r.failures, k.who)
	}
}

// failed records a failure of a program for a sender, and disables it for that sender
// after Options.Failures.
func (p *programs) failed(k key, f *failure) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := fmt.Errorf("%w: %s", caller.ErrProgram, f.why)
	r := p.records[k.program]
	if r == nil {
		return err
	}
	if r.failures == nil {
		r.failures = make(map[string]int)
	}
	if r.failures[k.who]++; r.failures[k.who] < p.opts.Failures {
		return err
	}
	delete(r.failures, k.who)
	if r.Out == nil {
		r.Out = make(map[string]outage)
	}
	until := p.opts.Now().Add(p.opts.Penalty)
	maps.DeleteFunc(r.Out, func(_ string, out outage) bool { return !p.opts.Now().Before(out.Until) })
	r.Out[k.who] = outage{until, f.why}
	p.opts.Logger.Warn("agent disabled after repeated failures", "agent", k.program.String(), "sender", k.who, "until", until, "reason", f.why)
	if werr := p.write(); werr != nil {
		p.opts.Logger.Error("agents: records could not be written", "err", werr)
	}
	return err
}
