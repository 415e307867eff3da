package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Command is a Source: what a program writes to its standard output is read
// like a [List]. One that fails, takes too long, or writes too much names
// nothing: nothing is concluded from what it did not write.
type Command struct {
	// Line is given to the shell: sh -c, or cmd /C on Windows. The program has
	// no standard input, and the working directory and environment of this one.
	Line string

	// Timeout is how long it may take. Zero means 5 minutes. Then, and when
	// the reading is cancelled, the program and all that it started are
	// killed; on Windows, the program alone.
	Timeout time.Duration
}

const (
	commandTimeout = 5 * time.Minute
	commandGrace   = 2 * time.Second // for its output to end once it has been killed
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
	cmd.WaitDelay = commandGrace
	var complaint tail
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	// Something that it left running in the background may hold the pipe for ever.
	unblock := context.AfterFunc(ctx, func() { time.AfterFunc(commandGrace, func() { out.Close() }) })
	defer unblock()
	readErr := readList(out, each)
	if readErr != nil {
		cancel() // it may be waiting for somebody to read the rest
	} else {
		_, readErr = io.Copy(io.Discard, out) // readList ends with the list, and a compressed one may end first
	}
	waitErr := cmd.Wait()
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
