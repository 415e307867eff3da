package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A Command is a Source: the standard output of a program, read like a [List]. If it fails, takes too long,
// or writes too much, absence from its output means nothing.
//
// The output ends with the command itself, not with background processes that it left, which may hold the
// output open forever: what was written until then counts, and so does further output as long as it comes
// without a break of some seconds. So a command must not leave its output to the background. On Windows the
// output must end.
type Command struct {
	// Line is given to the shell: sh -c, or cmd /C on Windows. The program has no standard input, and
	// inherits the working directory and environment of this process.
	Line string

	// Timeout bounds its run time. Zero means 5 minutes. On timeout, and when the reading is cancelled, the
	// program and all that it started are killed; on Windows, the program alone. Background processes of a
	// program that ended by itself are left alone.
	Timeout time.Duration
}

const (
	commandTimeout = 5 * time.Minute
	commandGrace   = 2 * time.Second // for its output to end after a kill
	commandQuiet   = time.Second     // background output ends after two such times without a byte
	maxComplaint   = 2 << 10         // how many bytes of standard error are kept
)

// Read implements [Source]. A command has no versions.
func (c Command) Read(ctx context.Context, _ string, each func(Entry) error) (string, error) {
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = commandTimeout
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := shell(ctx, c.Line)
	cmd.WaitDelay = commandQuiet // for standard error, once the command has ended
	var complaint tail
	cmd.Stderr = &complaint
	out, in, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer out.Close()
	cmd.Stdout = in
	err = cmd.Start()
	in.Close()
	if err != nil {
		return "", err
	}
	o := &output{pipe: out, ended: make(chan struct{})}
	waited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		close(o.ended)
		out.SetReadDeadline(time.Now().Add(commandQuiet)) // for a Read in progress
		waited <- err
	}()
	// A process that has left the process group may hold the pipe forever.
	unblock := context.AfterFunc(ctx, func() { time.AfterFunc(commandGrace, func() { out.Close() }) })
	defer unblock()
	readErr := readList(o, each)
	if readErr != nil {
		cancel() // it may be blocked on a full pipe
	} else {
		_, readErr = io.Copy(io.Discard, o) // readList stops at the list's end, which a compressed list may reach first
	}
	waitErr := <-waited
	if errors.Is(waitErr, exec.ErrWaitDelay) {
		waitErr = nil // it succeeded, and left a process that may write to standard error
	}
	switch {
	case parent.Err() != nil:
		return "", parent.Err()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("it ran longer than %v, and was killed", timeout)
	case readErr != nil:
		return "", readErr
	case waitErr != nil:
		return "", fmt.Errorf("%w%s", waitErr, complaint.said())
	}
	return "", nil
}

// An output is a command's output, until it is closed, or the command has ended and no more comes.
type output struct {
	pipe  *os.File
	ended chan struct{} // closed once the command has ended
	over  bool          // Read has returned io.EOF
}

// Read implements io.Reader. Output that a slow reader has not taken yet is in the pipe, and counts: so every
// Read waits anew. It waits twice, since one wait may be over before the pipe was checked, as when the
// machine halts.
func (o *output) Read(p []byte) (int, error) {
	for waits := 0; ; waits++ {
		select {
		case <-o.ended:
			if o.over = o.over || waits == 2; o.over {
				return 0, io.EOF
			}
			o.pipe.SetReadDeadline(time.Now().Add(commandQuiet))
		default:
		}
		if n, err := o.pipe.Read(p); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// Partial is false.
func (c Command) Partial() bool { return false }

func (c Command) String() string { return oneLine(c.Line, 80) }

// A tail is a writer that keeps the last bytes.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-maxComplaint):]
	return len(p), nil
}

func (t *tail) said() string {
	b := bytes.TrimSpace(t.b)
	if len(b) == 0 {
		return ""
	}
	return ": " + oneLine(strings.ToValidUTF8(string(b), "\uFFFD"), maxComplaint)
}
