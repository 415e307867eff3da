package agent

import "syscall"

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
	syscall.Setpriority(syscall.PRIO_PROCESS, 0, 10)
}

// attributes has a process die with whoever started it, kill -9 included.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
