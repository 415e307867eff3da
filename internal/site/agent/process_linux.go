package agent

import (
	"os"
	"strconv"
	"syscall"
)

// niceness is the priority of a process that runs a program, on Linux. Beside two busy processes on the same processor it gets a
// seventh of that processor; with 10 it would get a twentieth, and need more than a minute to compile a program.
const niceness = 5

// processData bounds the memory of a process on Linux, in bytes: enough to compile
// the largest program, and to run it.
const processData = 768 << 20

// restrict limits the resources of this process. Errors are ignored: the time of the
// process is bounded in any case.
func restrict() {
	for which, most := range map[int]uint64{
		syscall.RLIMIT_DATA:   processData,
		syscall.RLIMIT_CORE:   0,
		syscall.RLIMIT_NOFILE: 32,
		syscall.RLIMIT_FSIZE:  256 << 20, // compiled code is stored in a file
	} {
		syscall.Setrlimit(which, &syscall.Rlimit{Cur: most, Max: most})
	}
	// Each thread has its own priority, and passes it on to threads that it starts.
	// Twice, since a thread may have started another one meanwhile.
	for range 2 {
		threads, _ := os.ReadDir("/proc/self/task")
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness)
			}
		}
	}
}

// attributes returns settings that kill a process when its parent dies, even by kill -9.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
