package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/client/mirror/holding"
	"github.com/parleyweb/parley/protocol"
)

// A Status says how a mirror stands. A running one writes it beside its state
// at most once a second, for others to read while the state is held.
type Status struct {
	Base    string    `json:"base"`
	Dir     string    `json:"dir"`
	PID     int       `json:"pid"`
	Running bool      `json:"running"` // by a process that is still there
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"`

	Cursor protocol.Cursor `json:"cursor"` // what is taken in of the site's journal
	Door   client.Door     `json:"door,omitempty"`
	holding.Counts

	Requests  int64     `json:"requests"` // for pages and robots.txt, since Started
	Received  int64     `json:"received"` // bytes of their bodies
	LastError string    `json:"last_error,omitempty"`
	LastFault time.Time `json:"last_fault,omitzero"` // when that was
}

// statusPath returns the file of the status of a state.
func statusPath(state string) string { return state + ".status.json" }

// ReadStatus reads the status of the mirror with the given state file. It can
// be up to a second old. An error wrapping fs.ErrNotExist means that no
// mirror has run with that state.
func ReadStatus(state string) (Status, error) {
	var s Status
	b, err := os.ReadFile(statusPath(state))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return Status{}, fmt.Errorf("read status: %w", err)
	}
	s.Running = s.Running && alive(s.PID)
	return s, nil
}

// alive reports whether there is a process of that number: one that was
// killed could not say that it has ended.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return runtime.GOOS == "windows" || p.Signal(syscall.Signal(0)) == nil
}

// A statusFile is the status of a run, and the file that tells it.
type statusFile struct {
	path string
	col  *holding.Holding

	mu    sync.Mutex
	s     Status
	dirty bool
}

func newStatusFile(state, base, dir string, col *holding.Holding) *statusFile {
	now := time.Now().UTC()
	return &statusFile{path: statusPath(state), col: col, dirty: true,
		s: Status{Base: base, Dir: dir, PID: os.Getpid(), Running: true, Started: now}}
}

// keep writes the status once a second, if there is news, until ctx ends.
func (f *statusFile) keep(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		f.mu.Lock()
		dirty := f.dirty
		f.mu.Unlock()
		if dirty {
			f.write(true)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// write writes the status. A fault is shown in the next one: the mirror goes on without.
func (f *statusFile) write(running bool) {
	f.mu.Lock()
	f.dirty = false
	s := f.s
	f.mu.Unlock()
	s.Running, s.Updated = running, time.Now().UTC()
	s.Cursor, s.Door = f.col.Cursor()
	s.Counts = f.col.Counts()
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		temp := f.path + ".new"
		if err = os.WriteFile(temp, append(b, '\n'), 0o644); err == nil {
			err = os.Rename(temp, f.path)
		}
	}
	if err != nil {
		f.fault(fmt.Errorf("write status: %w", err))
	}
}

func (f *statusFile) touch() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty = true
}

// asked notes a request and the bytes that came of it.
func (f *statusFile) asked(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.s.Requests++
	f.s.Received += n
	f.dirty = true
}

func (f *statusFile) fault(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.s.LastError, f.s.LastFault, f.dirty = err.Error(), time.Now().UTC(), true
}
