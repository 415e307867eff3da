// Package cost says what a measured program took: time, processors, memory.
package cost

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A Cost is what something took. CPU is of all processors together, and what else
// a machine does adds less to it than to the time on the clock.
type Cost struct {
	Wall, CPU time.Duration
	Memory    int64 // the most that one process had resident, in bytes; 0 if unknown
}

func (c Cost) String() string {
	s := fmt.Sprintf("%6.2f s wall %6.2f s cpu", c.Wall.Seconds(), c.CPU.Seconds())
	if c.Memory > 0 {
		s += fmt.Sprintf("  %4d MB", c.Memory>>20)
	}
	return s
}

// Of returns what f takes in this process.
func Of(f func() error) (Cost, error) {
	began, cpu := time.Now(), Processor()
	err := f()
	return Cost{Wall: time.Since(began), CPU: Processor() - cpu}, err
}

// Run runs a command and returns what it took, with all children that it waited
// for. If it fails, the error has what it said.
func Run(cmd *exec.Cmd) (Cost, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return Cost{}, fmt.Errorf("%s: %w\n%s", cmd.Path, err, &said)
	}
	st := cmd.ProcessState
	return Cost{time.Since(began), st.UserTime() + st.SystemTime(), Peak(st)}, nil
}

// Best is the least time of either of two runs, and the most memory. What else a
// machine does can only slow a run down. The zero Cost is no run.
func (c Cost) Best(o Cost) Cost {
	if c == (Cost{}) {
		return o
	}
	return Cost{min(c.Wall, o.Wall), min(c.CPU, o.CPU), max(c.Memory, o.Memory)}
}

// Resident is what a process that runs has had resident at most, in bytes, where
// Linux tells it: pages of mapped files included. (What getrusage tells of a
// child begins with the memory of its parent.)
func Resident(pid int) int64 {
	var kB int64
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
		fmt.Sscan(rest, &kB)
	}
	return kB << 10
}
