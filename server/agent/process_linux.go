package agent

import (
	"os"
	"strconv"
	"syscall"
)

// niceness is the priority of such a process on Linux.
const niceness = 10

// processData is how much memory a process may take on Linux, in bytes: what
// compiles the largest program, and what runs it.
const processData = 768 << 20

// restrict takes from this process what it does not need. What the system
// refuses to restrict is as before: the time of the process is bounded in any case.
func restrict() {
	for which, most := range map[int]uint64{
		syscall.RLIMIT_DATA:   processData,
		syscall.RLIMIT_CORE:   0,
		syscall.RLIMIT_NOFILE: 32,
		syscall.RLIMIT_FSIZE:  256 << 20, // what is compiled is kept in a file
	} {
		syscall.Setrlimit(which, &syscall.Rlimit{Cur: most, Max: most})
	}
	// Each thread has a priority of its own, which those inherit that it starts:
	// twice, since one may have started another meanwhile.
	for range 2 {
		threads, _ := os.ReadDir("/proc/self/task")
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness)
			}
		}
	}
}

// attributes has a process die with whoever started it, kill -9 included.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
