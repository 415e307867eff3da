package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A program is one of ours, running.
type program struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // after done

	mu   sync.Mutex
	said bytes.Buffer
}

// start runs a program that build made. Each line that it prints is given to
// lines, if there is one.
func (d *day) start(ctx context.Context, lines func([]byte) error, name string, args ...string) (*program, error) {
	p := &program{name: name, cmd: exec.CommandContext(ctx, filepath.Join(d.dir, name), args...), done: make(chan struct{})}
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
	d.programs = append(d.programs, p)
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
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Write keeps what the program says.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

// tail is the end of what the program said.
func (p *program) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.said.Bytes()
	return string(b[max(0, len(b)-2000):])
}

func (p *program) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end asks the program to end, and waits.
func (p *program) end() {
	p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.cmd.Process.Kill()
		<-p.done
	}
}

// get reports whether a URL can be had.
func get(u string) error {
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
