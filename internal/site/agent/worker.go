package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// processMemory is the GOMEMLIMIT of a process, in bytes.
const processMemory = 256 << 20

// A worker is a process that has loaded a program. One call at a time.
type worker struct {
	key  key
	cmd  *exec.Cmd
	in   *os.File  // its standard input
	out  *os.File  // its standard output
	said beginning // its standard error
	used time.Time
}

// A failure is a fault of a program.
type failure struct{ why string }

func (f *failure) Error() string { return f.why }

// newWorker starts a process, and loads a program into it. The error for a fault of
// the program is a *failure.
func newWorker(ctx context.Context, command []string, k key, program []byte, load loading) (*worker, error) {
	if len(command) == 0 {
		return nil, errors.New("start agent: Options.Command is empty")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		in.Close()
		return nil, fmt.Errorf("start agent: %w", err)
	}
	w := &worker{key: k, cmd: exec.Command(command[0], command[1:]...), in: in, out: out, said: beginning{most: 4 << 10}}
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = theirIn, theirOut, &w.said
	w.cmd.Env = []string{"GOMAXPROCS=2", fmt.Sprintf("GOMEMLIMIT=%d", processMemory), "GOTRACEBACK=none"}
	w.cmd.SysProcAttr = attributes()
	w.cmd.WaitDelay = time.Second
	err = w.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("start agent: %w", err)
	}
	text, err := json.Marshal(load)
	if err != nil {
		panic("agent: encode loading: " + err.Error()) // plain values always encode
	}
	_, err = w.exchange(ctx, load.Within, "to load", func() error {
		if err := send(w.in, kindLoad, text); err != nil {
			return err
		}
		return send(w.in, kindProgram, program)
	})
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// ask sends a question. While alive is true, even after a *failure, the worker can be used again.
func (w *worker) ask(ctx context.Context, q []byte, within time.Duration) (answer []byte, alive bool, err error) {
	answer, err = w.exchange(ctx, within, "to answer", func() error { return send(w.in, kindQuestion, q) })
	var d *died
	return answer, !errors.As(err, &d), err
}

// died says that a process cannot be used any more. Its cause is a *failure, or the end of a context.
type died struct{ error }

func (d *died) Unwrap() error { return d.error }

// exchange calls say to send messages, and waits for the answer.
func (w *worker) exchange(ctx context.Context, within time.Duration, what string, say func() error) ([]byte, error) {
	end := time.Now().Add(within)
	w.in.SetWriteDeadline(end)
	w.out.SetReadDeadline(end)
	defer context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		w.in.SetWriteDeadline(past)
		w.out.SetReadDeadline(past)
	})()
	err := say()
	var kind byte
	var content []byte
	if err == nil {
		kind, content, err = receive(w.out, kindAnswer, 1+protocol.MaxInline)
	}
	switch {
	case err == nil && kind == kindFailure:
		return nil, &failure{string(content)}
	case err == nil:
		return content, nil
	case ctx.Err() != nil:
		return nil, &died{ctx.Err()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &died{&failure{fmt.Sprintf("it took longer than %v %s", within, what)}}
	}
	w.stop() // so that its standard error is complete
	return nil, &died{&failure{w.exitReason()}}
}

// exitReason says why a process ended unexpectedly. The Go runtime reports a lack of
// memory in several ways.
func (w *worker) exitReason() string {
	said, _, _ := strings.Cut(string(w.said.text), "\n")
	if strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory") {
		return "it exceeded the memory limit of its process"
	}
	return strings.ToValidUTF8(cut("its process ended without an answer, perhaps out of memory: "+said, 200), "?")
}

// stop ends the process and waits for it. It may be called again.
func (w *worker) stop() {
	if w.cmd.ProcessState == nil {
		w.cmd.Process.Kill()
		w.cmd.Wait() // its status is of no interest
	}
	w.in.Close()
	w.out.Close()
}
