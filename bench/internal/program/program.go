// Package program runs Parley's programs for a measurement.
package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"time"
)

// Main is the main function of a measurement: it calls run with the command's arguments, until it is done or
// interrupted. An error is printed, and makes the exit code 1.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt kills a run that ignores the first
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// A Program is a running program.
type Program struct {
	Name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid after done

	mu   sync.Mutex
	said bytes.Buffer
}

// Environment variables through which one measurement runs another, see bench/pairs.
const (
	ProgramsEnv = "PARLEY_PROGRAMS"    // directory of the programs to run, instead of those that Build would build
	AccountEnv  = "PARLEY_CPU_ACCOUNT" // file to which the processor time of each ended program is appended
)

// Build builds programs into a directory, by the names of their packages under cmd.
func Build(ctx context.Context, dir string, names ...string) error {
	if from := os.Getenv(ProgramsEnv); from != "" {
		for _, name := range names {
			if err := os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "github.com/parleyweb/parley/cmd/"+name)
	}
	if msg, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, msg)
	}
	return nil
}

// Start runs a program. Each line of its output is passed to lines, if that is not nil.
func Start(ctx context.Context, lines func([]byte) error, path string, args ...string) (*Program, error) {
	p := &Program{Name: filepath.Base(path), cmd: exec.CommandContext(ctx, path, args...), done: make(chan struct{})}
	p.cmd.Stderr = p
	var stdout io.ReadCloser
	if lines == nil {
		p.cmd.Stdout = p
	} else {
		var err error
		if stdout, err = p.cmd.StdoutPipe(); err != nil {
			return nil, err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		if lines != nil {
			r := bufio.NewReader(stdout)
			for {
				line, err := r.ReadBytes('\n')
				if err == nil {
					err = lines(line)
				}
				if err != nil {
					if err != io.EOF {
						fmt.Fprintln(p, err)
					}
					break
				}
			}
		}
		p.err = errors.Join(p.cmd.Wait(), Account(p.cmd.ProcessState))
	}()
	return p, nil
}

// Account appends the processor time of an ended program to the file in AccountEnv, if set.
func Account(ended *os.ProcessState) error {
	name := os.Getenv(AccountEnv)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, ended.UserTime()+ended.SystemTime())
	return errors.Join(err, f.Close())
}

// PID returns the process id.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Write stores the program's output.
func (p *Program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

// Err returns the error with which the program ended.
func (p *Program) Err() error { return p.err }

// Tail returns the end of the program's output.
func (p *Program) Tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.said.Bytes()
	return string(b[max(0, len(b)-2000):])
}

// Ended reports whether the program has ended.
func (p *Program) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// End interrupts the program, and waits; after 30 s it kills it.
func (p *Program) End() {
	p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.cmd.Process.Kill()
		<-p.done
	}
}

// Used returns the processor time of an ended program.
func (p *Program) Used() (user, system time.Duration) {
	return p.cmd.ProcessState.UserTime(), p.cmd.ProcessState.SystemTime()
}

// Until waits for a condition that programs should bring about. If a program or ctx ends before, the error
// says what was waited for.
func Until(ctx context.Context, what string, cond func() bool, programs ...*Program) error {
	for !cond() {
		for _, p := range programs {
			if p.Ended() {
				return fmt.Errorf("waiting for %s: %s exited: %w: %s", what, p.Name, p.Err(), p.Tail())
			}
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("waiting for %s: %w", what, ctx.Err())
			for _, p := range programs {
				err = fmt.Errorf("%w\n%s: %s", err, p.Name, p.Tail())
			}
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// Get returns an error unless a URL answers with 200.
func Get(u string) error {
	resp, err := http.Get(u)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", u, resp.Status)
	}
	return nil
}
