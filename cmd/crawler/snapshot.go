package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/holder"
)

// slowestReader is how long a crawler waits for the next read of a process that copies its state: meanwhile state.db grows with every
// commit.
const slowestReader = 30 * time.Second

// state responds with a copy of state.db as it is now.
func (d *localAPI) state(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := collection.Backup(d.col, &stateWriter{w, req.Context()}); err != nil {
		d.log.Warn("a copy of the state for another process is not complete", "err", err)
		panic(http.ErrAbortHandler) // so that the client does not take it for complete
	}
}

// A stateWriter ends with its request, or if the client stops reading.
type stateWriter struct {
	to  http.ResponseWriter
	ctx context.Context
}

func (s *stateWriter) Write(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if err := http.NewResponseController(s.to).SetWriteDeadline(time.Now().Add(slowestReader)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return s.to.Write(b)
}

// request sends a request to the process that holds the collection in dir. If none does, it opens the collection instead.
func request(ctx context.Context, dir, method, path string, in any, log *slog.Logger) (col *collection.Collection, body io.ReadCloser, err error) {
	if _, err := os.Stat(statePath(dir)); err != nil {
		return nil, nil, noCollection(dir)
	}
	door := holder.Client{State: statePath(dir), Held: func() (held bool, err error) {
		// Opening a large collection takes long: if it is free, it is kept open.
		col, err = collection.Open(dir, reading(log))
		if errors.Is(err, collection.ErrHeld) {
			return true, nil
		}
		return false, err
	}}
	if body, err = door.Stream(ctx, method, path, in); errors.Is(err, holder.ErrNoHolder) {
		err = nil
	}
	return col, body, err
}

func reading(log *slog.Logger) *collection.Options {
	return &collection.Options{ReadOnly: true, Quality: crawl.DefaultQuality.Of, Log: log}
}

// snapshot opens the collection in dir as it is now, for a long reading, and returns it with a function that closes it. While a crawler
// runs on it, that is a copy of its state.db in the system's temporary directory, which the function removes; otherwise it is the
// collection itself, and no crawler can start meanwhile.
func snapshot(ctx context.Context, env *command.Env, dir string) (*collection.Collection, func() error, error) {
	dir = collectionIn(dir)
	col, body, err := request(ctx, dir, "GET", "/state", nil, env.Log)
	if err != nil {
		return nil, nil, err
	} else if col != nil {
		return col, col.Close, nil
	}
	file, err := stateFile(env, dir, body)
	if err = errors.Join(err, body.Close()); err == nil {
		o := reading(env.Log)
		o.State = file
		col, err = collection.Open(dir, o)
	}
	os.Remove(file) // where files that are open can be removed, so that not even a kill leaves it behind
	if err != nil {
		return nil, nil, errors.Join(err, removeState(file))
	}
	return col, func() error { return errors.Join(col.Close(), removeState(file)) }, nil
}

// stateFile writes a copy of state.db into a temporary file, and returns its name, also if that fails; "" if there is none.
func stateFile(env *command.Env, dir string, copied io.Reader) (name string, err error) {
	st, err := os.Stat(statePath(dir))
	if err != nil {
		return "", err
	}
	temp := os.TempDir()
	if free, known := atomicfile.Spare(temp, 1); known && free < st.Size() {
		return "", fmt.Errorf("copy state.db: it has %d MB, and %s has room for %d MB: set TMPDIR to a directory with more", st.Size()>>20, temp, max(0, free>>20))
	}
	f, err := os.CreateTemp(temp, "parley-state-*.db")
	if err != nil {
		return "", fmt.Errorf("copy state.db: %w: set TMPDIR to another directory", err)
	}
	progress := env.Progress("copying state.db (bytes)", st.Size())
	defer progress.Done()
	_, err = io.Copy(f, io.TeeReader(copied, counter{progress}))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it has ended or broken off: give the command again")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return f.Name(), fmt.Errorf("copy state.db from the running crawler to %s: %w", temp, err)
	}
	return f.Name(), nil
}

func removeState(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// A counter shows how many bytes are written to it.
type counter struct{ *command.Progress }

func (c counter) Write(b []byte) (int, error) {
	c.Add(int64(len(b)))
	return len(b), nil
}
