// Package holder lets the process that has a state open answer the others of this machine, on a Unix socket
// beside the state that only its owner may use.
package holder

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

	"github.com/parleyweb/parley/internal/pause"
)

// ErrNoHolder is returned by [Client.Do] when no process has the state.
var ErrNoHolder = errors.New("no process has the state open")

// longestSocket is the longest path of a socket, in bytes: less than the smallest limit of any system, which
// is 104.
const longestSocket = 100

// newSocket is the suffix of a socket's name until only the owner may connect to it.
const newSocket = "~"

// SocketPath returns the socket of the holder of the state at path: beside it, or in the system's temporary
// directory if that path would be too long.
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

// Serve serves the state at path until ctx ends, which also ends requests in progress. The state must be
// open: then a socket that exists already is a dead one, and is replaced.
func Serve(ctx context.Context, state string, h http.Handler, log *slog.Logger) error {
	path, err := SocketPath(state)
	if err != nil {
		return fmt.Errorf("serve the socket of %s: %w", state, err)
	}
	ln, err := listenPrivate(path)
	if err != nil {
		return fmt.Errorf("serve the socket of %s: %w", state, err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
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
	return fmt.Errorf("serve the socket of %s: %w", state, err)
}

// listenPrivate listens on a socket that is private before it gets its name.
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

// A Client sends requests to the holder of a state.
type Client struct {
	State string

	// Held reports whether another process has the state open: only then is it worth waiting for a socket
	// that does not answer.
	Held func() (bool, error)
}

// maxAnswer bounds a response that is read whole.
const maxAnswer = 16 << 20

// connectTimeout is how long Do waits for a process that has the state to listen.
const connectTimeout = 5 * time.Second

// Do sends in, if not nil, as JSON to the process that has the state, and decodes its JSON response into
// out. It returns ErrNoHolder if no process has the state: then the caller may open it. It waits up to 5 s for
// a holder that does not listen yet, and as long as ctx allows for the response.
func (d Client) Do(ctx context.Context, method, path string, in, out any) error {
	body, err := d.Stream(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		return fmt.Errorf("ask the process that has %s open: %w", d.State, err)
	}
	return nil
}

// Stream sends a request like Do, and returns the response to be read as it arrives, and closed.
func (d Client) Stream(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	body, err := d.ask(ctx, method, path, in)
	if own, is := err.(ownError); is {
		return nil, own.error
	}
	if err != nil && err != ErrNoHolder {
		return nil, fmt.Errorf("ask the process that has %s open: %w", d.State, err)
	}
	return body, err
}

// An ownError is an error of Held: no process was asked.
type ownError struct{ error }

func (d Client) ask(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	socket, err := SocketPath(d.State)
	if err != nil {
		return nil, err
	}
	for begin := time.Now(); ; {
		body, err := Over(ctx, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", socket) }, method, path, in)
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			return body, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		held, heldErr := d.Held()
		switch {
		case heldErr != nil:
			return nil, ownError{heldErr}
		case !held:
			return nil, ErrNoHolder
		case time.Since(begin) > connectTimeout:
			return nil, fmt.Errorf("it does not answer: %w", err)
		}
		if err := pause.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Over sends a request like [Client.Stream], over a connection that dial makes.
func Over(ctx context.Context, dial func(context.Context) (net.Conn, error), method, path string, in any) (io.ReadCloser, error) {
	var text []byte
	if in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://holder"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return answerOf(resp)
}

// answerOf returns the body of a response, or the error that it describes (RFC 9457).
func answerOf(resp *http.Response) (io.ReadCloser, error) {
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	var p struct{ Detail string }
	if json.Unmarshal(b, &p) == nil && p.Detail != "" {
		return nil, errors.New(p.Detail)
	}
	return nil, fmt.Errorf("it answered %s: %.200s", resp.Status, bytes.TrimSpace(b))
}
