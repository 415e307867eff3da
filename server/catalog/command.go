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

// A Command is a Source: what a program writes to its standard output is read
// like a [List]. One that fails, takes too long, or writes too much names
// nothing: nothing is concluded from what it did not write.
//
// It ends with the command itself, and not with what that left running in the
// background, which may hold the output open for ever: what was written until
// then counts, and what still comes while it comes without a break of some
// seconds. So a command must not leave to the background what is to be read.
// On Windows the output must end.
type Command struct {
	// Line is given to the shell: sh -c, or cmd /C on Windows. The program has
	// no standard input, and the working directory and environment of this one.
	Line string

	// Timeout is how long it may take. Zero means 5 minutes. Then, and when
	// the reading is cancelled, the program and all that it started are
	// killed; on Windows, the program alone. What it left in the background
	// when it ended by itself is left alone.
	Timeout time.Duration
}

const (
	commandTimeout = 5 * time.Minute
	commandGrace   = 2 * time.Second // for its output to end once it has been killed
	commandQuiet   = time.Second     // twice without output from what a command left behind, before that is the end
	maxComplaint   = 2 << 10         // how much is kept of what a program says on standard error, in bytes
)

// Read is as [Source] says. A command has no versions.
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
		out.SetReadDeadline(time.Now().Add(commandQuiet)) // for whoever reads already
		waited <- err
	}()
	// Something that has left its process group may hold the pipe for ever.
	unblock := context.AfterFunc(ctx, func() { time.AfterFunc(commandGrace, func() { out.Close() }) })
	defer unblock()
	readErr := readList(o, each)
	if readErr != nil {
		cancel() // it may be waiting for somebody to read the rest
	} else {
		_, readErr = io.Copy(io.Discard, o) // readList ends with the list, and a compressed one may end first
	}
	waitErr := <-waited
	if errors.Is(waitErr, exec.ErrWaitDelay) {
		waitErr = nil // it ended well, and left something that may complain
	}
	switch {
	case parent.Err() != nil:
		return "", parent.Err()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("it took longer than %v, and was killed", timeout)
	case readErr != nil:
		return "", readErr
	case waitErr != nil:
		return "", fmt.Errorf("%w%s", waitErr, complaint.said())
	}
	return "", nil
}

// An output is what a command writes, until nobody can write any more, or the
// command has ended and nothing comes.
type output struct {
	pipe  *os.File
	ended chan struct{} // closed once the command has
	over  bool          // Read has returned io.EOF
}

// Read implements io.Reader. What a slow reader has not taken yet is in the
// pipe, and counts: so each time it waits anew, and it waits twice, since one
// wait may be over before the pipe was looked at, as when the machine halts.
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

// A tail keeps the end of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[max(0, len(p)-maxComplaint):]...)
	if cut := len(t.b) - maxComplaint; cut > maxComplaint {
		t.b = append(t.b[:0], t.b[cut:]...)
	}
	return len(p), nil
}

func (t *tail) said() string {
	b := bytes.TrimSpace(t.b[max(0, len(t.b)-maxComplaint):])
	if len(b) == 0 {
		return ""
	}
	return ": " + oneLine(strings.ToValidUTF8(string(b), "\uFFFD"), maxComplaint)
}
