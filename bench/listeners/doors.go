//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/doors"
)

const doorsOfASite = 4

// A sharedSite is a site whose log is in NATS, with several doors: all in one process, each with its own connection and copy.
type sharedSite struct {
	parley // the journal of the writer; its Notifier has no listeners
	doors  []*doors.Notifier
	where  string // the doors' ports
	path   string // of their streams
	ends   []func() error
}

// newSharedSite starts a site, with a NATS server that syncs every change, in a directory. It runs until end is called.
func newSharedSite(ctx context.Context, dir string) (s *sharedSite, err error) {
	s = &sharedSite{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	servers, err := natstest.New(filepath.Join(dir, "nats"), 1)
	if err != nil {
		return s, err
	}
	s.ends = append(s.ends, func() error { servers.Stop(); return nil })
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	s.ends = append(s.ends, func() error { cancel(); running.Wait(); return nil })
	log := func(name string) (*jetlog.Log, error) {
		j, err := journal.Open(filepath.Join(dir, name), nil)
		if err != nil {
			return nil, err
		}
		s.ends = append([]func() error{j.Close}, s.ends...) // after what runs has ended: ends run from the last to the first
		nc, err := jetlog.Connect(servers.URLs(), "")
		if err != nil {
			return nil, err
		}
		s.ends = append(s.ends, func() error { nc.Close(); return nil })
		stream, err := jetlog.Open(ctx, nc, jetlog.Options{Name: "site"})
		return &jetlog.Log{Stream: stream, Journal: j, Items: func(context.Context) (protocol.Cursor, iter.Seq2[protocol.Item, error], error) {
			return s.journal.Head(), func(func(protocol.Item, error) bool) {}, nil
		}}, err
	}
	writer, err := log("writer")
	if err != nil {
		return s, err
	}
	s.journal = writer.Journal
	if err := s.journal.EndBaseline(); err != nil {
		return s, err
	}
	running.Go(func() { writer.Tell(ctx, false) })
	var ports []string
	for i := range doorsOfASite {
		copied, err := log(fmt.Sprint("door", i))
		if err != nil {
			return s, err
		}
		running.Go(func() { copied.Follow(ctx) })
		n := &doors.Notifier{Log: copied, Base: base, Limits: limits}
		ln, err := net.Listen("tcp4", ":0")
		if err != nil {
			return s, err
		}
		web := &http.Server{Handler: n}
		running.Go(func() { web.Serve(ln) })
		s.ends = append(s.ends, web.Close, func() error { return n.Close(context.WithoutCancel(ctx)) })
		s.doors, ports = append(s.doors, n), append(ports, fmt.Sprint(ln.Addr().(*net.TCPAddr).Port))
		if err := copied.Told(ctx, s.journal.Head()); err != nil {
			return s, err
		}
	}
	s.where, s.path = strings.Join(ports, ","), "/parley/stream?after="+s.journal.Head().String()
	return s, nil
}

func (s *sharedSite) listeners() (n int) {
	for _, d := range s.doors {
		n += d.Stats().Subscribers
	}
	return n
}

func (s *sharedSite) end() (err error) {
	for i := len(s.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, s.ends[i]())
	}
	return err
}

// sendShared serves a site with several doors, and does what the lines of in say.
func sendShared(ctx context.Context, in io.Reader, out io.Writer) error {
	tmp, err := os.MkdirTemp("", "parley-listeners-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	s, err := newSharedSite(ctx, tmp)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s\n", s.where, s.path)
	return errors.Join(obey(ctx, s, in, out), s.end())
}
