package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
)

// inProcess sends a request to a local API in this process, as holder.Client does to another process. Closing the
// body ends a response in progress, and closes the collection.
func inProcess(ctx context.Context, d *localAPI, method, path string, in any) (io.ReadCloser, error) {
	var text []byte
	if in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return nil, errors.Join(err, d.col.Close())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, method, "http://holder"+path, bytes.NewReader(text))
	if err != nil {
		cancel()
		return nil, errors.Join(err, d.col.Close())
	}
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, pipe: pw, begun: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			} else if p != nil {
				pw.CloseWithError(io.ErrUnexpectedEOF)
			}
			pw.Close()
			w.WriteHeader(http.StatusOK)
		}()
		d.handler().ServeHTTP(w, req)
	}()
	body := &inProcessBody{PipeReader: pr, end: func() error {
		cancel()
		pr.Close()
		<-done
		return d.col.Close()
	}}
	<-w.begun
	if w.status != http.StatusOK {
		var p struct{ Detail string }
		err := json.NewDecoder(io.LimitReader(pr, 64<<10)).Decode(&p)
		if err == nil {
			err = errors.New(p.Detail)
		}
		return nil, errors.Join(err, body.Close())
	}
	return body, nil
}

// A pipeWriter passes a response to a reader in the same process.
type pipeWriter struct {
	header http.Header
	pipe   *io.PipeWriter
	once   sync.Once
	status int
	begun  chan struct{} // closed when status is known
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.begun)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(p)
}

type inProcessBody struct {
	*io.PipeReader
	end  func() error
	once sync.Once
	err  error
}

func (b *inProcessBody) Close() error {
	b.once.Do(func() { b.err = b.end() })
	return b.err
}
