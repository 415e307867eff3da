package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/protocol"
)

// The experiment of Castillo 2004, section 6.2: what a crawler transfers to learn which of 249 pages have changed.
const (
	thesisPages = 249
	thesisList  = 61_504  // bytes of one file with the modification times
	thesisHeads = 108_777 // bytes of a HEAD for each page
)

// metering counts the bytes of the connections to an address, in both directions.
type metering struct {
	net.Conn
	n *atomic.Int64
}

func (c metering) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.Add(int64(n))
	return n, err
}

func (c metering) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// heads prints the bytes with which a crawler learns which of n pages have changed: by a HEAD for each, over one
// connection, and by one request for each form that lists them all.
func heads(ctx context.Context, n int, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "parley-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var paths []string
	m := protocol.Message{Kind: protocol.Batch, From: protocol.Cursor{Epoch: head(n).Cursor.Epoch}, To: head(n).Cursor, Head: head(n).Cursor}
	for it, err := range items(n) {
		if err != nil {
			return err
		}
		path := strings.TrimPrefix(it.URL, base)
		paths = append(paths, path)
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("<title>A page</title>"), 0o644)); err != nil {
			return err
		}
		m.Changes = append(m.Changes, protocol.Change{Seq: uint64(len(paths)), Op: protocol.Update, Item: it})
	}
	var list, packed bytes.Buffer
	if err := writeOurs(&list, n); err != nil {
		return err
	}
	pack := func(b []byte) []byte {
		packed.Reset()
		z := coding.NewGzip(&packed)
		z.Write(b) // to memory: neither fails
		z.Close()
		return bytes.Clone(packed.Bytes())
	}
	changes := m.Encode()
	forms := []struct {
		name    string
		content []byte
	}{{"manifest", list.Bytes()}, {"manifest.gz", pack(list.Bytes())}, {"changes", changes}, {"changes.gz", pack(changes)}}
	for _, f := range forms {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil {
			return err
		}
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir))}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Close()
		<-served
	}()
	var sent atomic.Int64
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return metering{c, &sent}, err
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	request := func(method, path string) error {
		req, err := http.NewRequestWithContext(ctx, method, (&url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/" + path}).String(), nil)
		if err != nil {
			return err
		}
		req.Header.Set("User-Agent", "Parley/1.0 (+https://example.net/bot)")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %s", method, path, resp.Status)
		}
		return nil
	}
	for _, path := range paths {
		if err := request(http.MethodHead, path); err != nil {
			return err
		}
	}
	all := sent.Swap(0)
	row := func(what string, bytes, of int64, pages int) {
		fmt.Fprintf(out, "%-44s %9d %12.0f %9.1f %%\n", what, bytes, float64(bytes)/float64(pages), 100*(1-float64(bytes)/float64(of)))
	}
	fmt.Fprintf(out, "%-44s %9s %12s %11s\n", fmt.Sprint(n, " pages"), "bytes", "bytes a page", "saved")
	row("a HEAD for each page", all, all, n)
	for _, f := range forms {
		if err := request(http.MethodGet, f.name); err != nil {
			return err
		}
		row(f.name, sent.Swap(0), all, n)
	}
	row("Castillo 2004, section 6.2: 249 HEADs", thesisHeads, thesisHeads, thesisPages)
	row("Castillo 2004, section 6.2: one file", thesisList, thesisHeads, thesisPages)
	return nil
}
