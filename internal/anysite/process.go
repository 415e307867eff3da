//go:build linux

package anysite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A process is a program of the world. It can be restarted.
type process struct {
	w    *world
	name string
	kind string // of record.Program
	args []string
	uses []string // base URLs

	mu     sync.Mutex
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended; nil before its first start
	said   chan struct{} // closed and replaced with each line of its log
	lines  []string
	killed bool
	asked  bool
	what   string // the event counted until it is killed: request, byte, line or manifest
	left   int
	after  time.Duration // delay between that event and the kill
	rss    atomic.Int64  // its peak memory
}

// start starts the program, with additional arguments.
func (p *process) start(more ...string) error {
	program := "crawler"
	if strings.HasPrefix(p.name, "notifier") || strings.HasPrefix(p.name, "rdfgen") {
		program, _, _ = strings.Cut(p.name, "-")
	}
	args := append(append([]string{}, p.args...), more...)
	cmd := p.w.command(program, args...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	started := time.Now() // before the process can send a request
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.mu.Lock()
	p.cmd, p.done, p.said, p.killed, p.asked, p.lines = cmd, make(chan struct{}), make(chan struct{}), false, false, nil
	p.mu.Unlock()
	p.w.mu.Lock()
	p.w.rec.Settings = append(p.w.rec.Settings, record.Program{Name: p.name, Kind: p.kind, Args: args, Options: p.w.options(p.kind, args), Sites: p.uses, Started: started})
	p.w.mu.Unlock()
	go p.weigh(cmd.Process.Pid, p.done)
	go func() {
		defer close(p.done)
		in := bufio.NewScanner(stderr)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			p.line(in.Text())
		}
		err := cmd.Wait()
		p.ended(err, stdout.String())
	}()
	return nil
}

// weigh samples the program's peak memory until it has ended. The system's own figure for an ended program
// starts with the memory of the runner that started it.
func (p *process) weigh(pid int, done <-chan struct{}) {
	p.rss.Store(0)
	for {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
			if _, after, ok := strings.Cut(string(b), "VmHWM:"); ok {
				kb, _ := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
				p.rss.Store(max(p.rss.Load(), kb<<10))
			}
		}
		select {
		case <-done:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// line records a line of its log.
func (p *process) line(text string) {
	p.mu.Lock()
	p.lines = append(p.lines, text)
	close(p.said)
	p.said = make(chan struct{})
	p.mu.Unlock()
	if p.counts("line") {
		p.kill()
	}
}

// ended records how the program ended.
func (p *process) ended(err error, stdout string) {
	p.mu.Lock()
	x := record.Exit{Program: p.name, At: time.Now(), Code: p.cmd.ProcessState.ExitCode(), Killed: p.killed, Asked: p.asked, Stdout: stdout, Stderr: strings.Join(p.lines, "\n")}
	if x.Code < 0 && x.Asked && len(p.lines) == 0 {
		x.Killed = true // it ended before it could listen for a signal
	}
	usage, _ := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	p.mu.Unlock()
	if x.Code > 0 {
		p.w.logf("%s ended with %d: %.2000s", p.name, x.Code, x.Stderr)
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.rec.Exits = append(p.w.rec.Exits, x)
	u := record.Usage{Program: p.name, CPU: cpu, PeakRSS: p.rss.Load()}
	if usage != nil {
		u.Written = usage.Oublock * 512
	}
	p.w.rec.Usage = append(p.w.rec.Usage, u)
}

// arm schedules a kill at the n-th request, byte (in hundreds) or line of its log from now on.
func (p *process) arm(trigger string) {
	what, number, _ := strings.Cut(trigger, " ")
	n, _ := strconv.Atoi(number)
	after := time.Duration(0)
	switch what {
	case "byte":
		n = n/512 + 1
	case "manifest": // the first manifest, with a delay
		n, after = 1, time.Duration(n)*4*time.Millisecond
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.left, p.after = what, n, after
}

// counts counts an event, and reports whether it is time for the kill.
func (p *process) counts(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what != what || p.left == 0 {
		return false
	}
	p.left--
	return p.left == 0
}

// killLater kills the program after the delay, unless it has ended and was restarted by then.
func (p *process) killLater() {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := p.done
	time.AfterFunc(p.after, func() {
		p.mu.Lock()
		same := p.done == done
		p.mu.Unlock()
		if same {
			p.kill()
		}
	})
}

// kill ends the program as a power cut does, and waits.
func (p *process) kill() {
	p.mu.Lock()
	if p.cmd == nil {
		p.mu.Unlock()
		return
	}
	select {
	case <-p.done:
		p.mu.Unlock()
		return
	default:
	}
	p.killed, p.what = true, ""
	p.cmd.Process.Kill()
	p.mu.Unlock()
}

// stop terminates the program, and waits; if that takes too long, the program is killed, which is a finding.
func (p *process) stop() {
	if p.running() {
		p.mu.Lock()
		p.asked = true
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.mu.Unlock()
		p.wait(10 * time.Second)
		if p.running() {
			p.w.fail(fmt.Errorf("%s does not exit on SIGTERM", p.name))
			p.cmd.Process.Signal(syscall.SIGQUIT) // it dumps its goroutines into the recording
			p.wait(2 * time.Second)
			p.kill()
			<-p.done
		}
	}
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits until the program has ended, or for a time.
func (p *process) wait(d time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(d):
		return false
	}
}

// says waits until the program has logged some words or has ended, or for a time.
func (p *process) says(words string, d time.Duration) bool {
	late := time.After(d)
	for {
		p.mu.Lock()
		said := p.said
		for _, l := range p.lines {
			if strings.Contains(l, words) {
				p.mu.Unlock()
				return true
			}
		}
		p.mu.Unlock()
		select {
		case <-said:
		case <-p.done:
			return false
		case <-late:
			return false
		}
	}
}

// command returns a command of the world, which resolves the names of the world.
func (w *world) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(w.programs, program), args...)
	if w.hosts != "" { // a mount namespace with another table of names
		cmd = exec.Command("sh", append([]string{"-c", `mount --bind "$0" /etc/hosts && exec "$@"`, w.hosts, filepath.Join(w.programs, program)}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + w.dir, "SSL_CERT_FILE=" + w.certs.file, "NO_PROXY=*"}
	return cmd
}

// asker returns the program that sent a request, by its User-Agent.
func (w *world) asker(r *http.Request) *process {
	if strings.Contains(r.UserAgent(), w.contact()+"@") {
		return w.procs[crawlerName]
	}
	return nil
}

// output runs a short-lived program, and returns what it printed.
func (w *world) output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := w.command(program, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return "", err
	}
	late := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer late()
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, said.String())
	}
	return out.String(), nil
}
