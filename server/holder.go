package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/parleyweb/parley/internal/journal"
)

// A Holder answers other processes of this machine for the one that has a
// site's journal open, on a Unix socket beside the journal that only its owner
// may use:
//
//	GET  /status             the Publisher's Status
//	POST /look               look at everything now, write the manifest; a Report
//	POST /accept-deletions   the same, announcing every deletion
//	GET  /NAME               what Answers has under NAME
//
// Answers are JSON; refusals are application/problem+json. See [Ask].
type Holder struct {
	State     string // path of the journal, which this process has open
	Publisher *Publisher

	// Answers says what else of this process can be asked: GET /NAME is
	// answered with the JSON of what the function returns, which must encode.
	// A name is one path segment, such as "senders", and none of the above.
	Answers map[string]func(context.Context) (any, error)

	Log *slog.Logger
}

// ErrNotHeld is returned by [Ask] when no process has the journal.
var ErrNotHeld = errors.New("no process has the journal")

// longestSocket is how long the path of a socket may be, in bytes: less than
// the least that any system allows, which is 104.
const longestSocket = 100

// SocketPath is where the holder of the journal at path answers: beside it,
// or in the system's temporary directory where that path would be too long.
func SocketPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if s := abs + ".sock"; len(s)+len(newSocket) <= longestSocket {
		return s, nil
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(os.TempDir(), "parley-"+hex.EncodeToString(sum[:8])+".sock"), nil
}

// newSocket is what the name of a socket ends in until it is private.
const newSocket = "~"

// Run answers until ctx ends, which also ends what was asked and is still
// being done. It must be called with the journal open: that is why a socket
// which is there already is a dead one, and is replaced.
func (h *Holder) Run(ctx context.Context) error {
	path, err := SocketPath(h.State)
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.State, err)
	}
	ln, err := listenPrivate(path)
	if err != nil {
		return fmt.Errorf("hold %s: %w", h.State, err)
	}
	srv := &http.Server{Handler: h.mux(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(orDiscard(h.Log).Handler(), slog.LevelDebug)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err = <-done: // it failed
		srv.Close()
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if srv.Shutdown(end) != nil {
			srv.Close()
		}
		err = <-done
	}
	os.Remove(path)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("hold %s: %w", h.State, err)
}

// listenPrivate listens on a socket that is private before it has its name.
func listenPrivate(path string) (net.Listener, error) {
	temp := path + newSocket
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ln, err := net.Listen("unix", temp)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(temp, 0o600); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		ln.Close()
		os.Remove(temp)
		return nil, err
	}
	return ln, nil
}

func (h *Holder) mux() http.Handler {
	answer := func(w http.ResponseWriter, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic("server: encode answer: " + err.Error()) // plain values always encode
		}
		writeJSON(w, append(b, '\n'))
	}
	turn := func(do func(context.Context) (Report, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			rep, err := h.settled(r.Context(), do)
			if err != nil {
				plainProblem(http.StatusInternalServerError, err.Error()).write(w, r)
				return
			}
			answer(w, rep)
		}
	}
	m := http.NewServeMux()
	m.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { answer(w, h.Publisher.Status()) })
	m.HandleFunc("POST /self-check", func(w http.ResponseWriter, r *http.Request) {
		findings, err := SelfCheck(r.Context(), h.Publisher.Journal, nil, 0)
		if err != nil {
			plainProblem(http.StatusInternalServerError, err.Error()).write(w, r)
			return
		}
		answer(w, findings)
	})
	for name, f := range h.Answers {
		m.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r.Context())
			if err != nil {
				plainProblem(http.StatusInternalServerError, err.Error()).write(w, r)
				return
			}
			answer(w, v)
		})
	}
	m.HandleFunc("POST /look", turn(h.Publisher.Turn))
	m.HandleFunc("POST /accept-deletions", turn(h.Publisher.AcceptDeletions))
	return m
}

// settlePatience is how long a look that was asked for waits for files that
// are being changed at that moment, so that asking right after a build tells
// what the build did.
const settlePatience = 5 * time.Second

// settled takes a turn, and more of them while something is unsettled. The
// report adds up what they found.
func (h *Holder) settled(ctx context.Context, do func(context.Context) (Report, error)) (Report, error) {
	begin := time.Now()
	rep, err := do(ctx)
	for err == nil && rep.Unsettled > 0 && time.Since(begin) < settlePatience && sleep(ctx, 20*time.Millisecond) {
		var next Report
		next, err = do(ctx)
		rep.add(next)
		rep.Duration, rep.Head = time.Since(begin), next.Head
	}
	return rep, err
}

// askPatience is how long Ask waits for a process that has the journal to
// open its door.
const askPatience = 5 * time.Second

// Ask asks the process that has the journal at state, and decodes its JSON
// into out, a *Report or *Status. It returns ErrNotHeld when no process has
// the journal: then the caller may open it. It waits up to 5 s for a holder
// that does not answer yet, and as long as ctx lets it for the answer.
func Ask(ctx context.Context, state, method, path string, out any) error {
	err := ask(ctx, state, method, path, out)
	if err != nil && err != ErrNotHeld {
		return fmt.Errorf("ask the holder of %s: %w", state, err)
	}
	return err
}

func ask(ctx context.Context, state, method, path string, out any) error {
	socket, err := SocketPath(state)
	if err != nil {
		return err
	}
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	for begin := time.Now(); ; {
		req, err := http.NewRequestWithContext(ctx, method, "http://holder"+path, nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err == nil {
			return answerOf(resp, out)
		}
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		held, heldErr := isHeld(state)
		switch {
		case heldErr != nil:
			return heldErr
		case !held:
			return ErrNotHeld
		case time.Since(begin) > askPatience:
			return fmt.Errorf("a process has it, and does not answer: %w", err)
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// isHeld reports whether another process has the journal at path.
func isHeld(path string) (bool, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	j, err := journal.Open(path, &journal.Options{ReadOnly: true})
	switch {
	case errors.Is(err, journal.ErrHeld):
		return true, nil
	case err != nil:
		return false, nil // whatever is wrong with it, the caller who opens it is told
	}
	return false, j.Close()
}

func answerOf(resp *http.Response, out any) error {
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var p problem
		if json.Unmarshal(b, &p) == nil && p.Detail != "" {
			return errors.New(p.Detail)
		}
		return fmt.Errorf("it answered %s: %.200s", resp.Status, bytes.TrimSpace(b))
	}
	return json.Unmarshal(b, out)
}
