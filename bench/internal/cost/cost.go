// Package cost measures the time, processor time and memory of a program.
package cost

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A Cost is the cost of a measured run. CPU is summed over all processors; other load on the machine affects
// it less than Wall.
type Cost struct {
	Wall, CPU time.Duration
	Memory    int64 // peak resident memory of one process, in bytes; 0 if unknown
}

func (c Cost) String() string {
	s := fmt.Sprintf("%6.2f s wall %6.2f s cpu", c.Wall.Seconds(), c.CPU.Seconds())
	if c.Memory > 0 {
		s += fmt.Sprintf("  %4d MB", c.Memory>>20)
	}
	return s
}

// Of returns the cost of f in this process.
func Of(f func() error) (Cost, error) {
	began, cpu := time.Now(), Processor()
	err := f()
	return Cost{Wall: time.Since(began), CPU: Processor() - cpu}, err
}

// Run runs a command and returns its cost, with all children that it waited for. If it fails, the error
// contains its stderr.
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

// Best returns the smaller times of two runs, and the larger memory. Other load on the machine can only slow
// a run down. The zero Cost is no run.
func (c Cost) Best(o Cost) Cost {
	if c == (Cost{}) {
		return o
	}
	return Cost{min(c.Wall, o.Wall), min(c.CPU, o.CPU), max(c.Memory, o.Memory)}
}

// Resident returns the peak resident memory of a running process in bytes, on Linux, including pages of
// mapped files; 0 elsewhere. (getrusage's figure for a child starts with the memory of its parent.)
func Resident(pid int) int64 {
	var kB int64
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
		fmt.Sscan(rest, &kB)
	}
	return kB << 10
}

// Median returns the middle value of a list that is not empty, or the greater one of two.
func Median[T cmp.Ordered](list []T) T {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

// Anonymous returns the bytes of memory that a process has allocated itself, without mapped files; 0 if that is not known.
func Anonymous(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // of Linux only
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}
