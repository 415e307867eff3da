//go:build linux

package anysite

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// quiet discards what servers log about cut connections.
var quiet = log.New(io.Discard, "", 0)

// passing is one request and its response, as the front server sees them.
type passing struct {
	front   *front
	site    *site
	request *http.Request
	began   time.Time // when the request arrived, at the latest
	sent    time.Time // when it arrived, at the earliest
	conn    int
	from    *process // nil: the runner itself, or an unknown client
	door    string
	status  int
	header  http.Header
	body    []byte
}

// url returns the requested URL.
func (t *passing) url() string {
	return t.front.scheme + "://" + t.request.Host + t.request.URL.RequestURI()
}

// note records the request when it ends.
func (t *passing) note() {
	w, r, now := t.front.w, t.request, time.Now()
	body := decoded(t.header.Get("Content-Encoding"), t.body)
	s := w.keep(body)
	header := map[string]string{}
	for _, h := range []string{"User-Agent", "Authorization", "If-None-Match", "If-Modified-Since", "Accept-Encoding", "Available-Dictionary", "Range", "Upgrade"} {
		if v := r.Header.Get(h); v != "" {
			header[strings.ToLower(h)] = v
		}
	}
	q := record.Request{Began: t.began, Sent: t.sent, Ended: now, Host: r.Host, Address: net.JoinHostPort(t.front.ip, t.front.port), Conn: t.conn, Method: r.Method, URL: t.url(),
		Header: header, Status: t.status, Sum: s, Size: int64(len(t.body)), Door: t.door}
	if t.from != nil {
		q.From = t.from.name
	}
	ip, _, _ := net.SplitHostPort(r.RemoteAddr)
	w.mu.Lock()
	w.rec.Requests = append(w.rec.Requests, q)
	if r.Method == http.MethodGet && (t.door == "" || t.door == "robots") && header["authorization"] == "" && ip != reader && t.status != http.StatusNotModified && t.header.Get("Content-Encoding") != "dcz" {
		w.rec.Fetches = append(w.rec.Fetches, record.Fetch{At: now, URL: t.url(), Status: t.shown(), Location: t.header.Get("Location"), Type: t.header.Get("Content-Type"),
			Sum: s, Size: int64(len(body)), ByTap: true, From: ip})
	}
	w.mu.Unlock()
	t.given(now, body)
}

// shown returns the status that a GET of the whole page would have had: a range may be the whole page.
func (t *passing) shown() int {
	var first, last, size int
	if _, err := fmt.Sscanf(t.header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); t.status == http.StatusPartialContent && err == nil && first == 0 && last == size-1 {
		return http.StatusOK
	}
	return t.status
}

// given records the pages that left by a door.
func (t *passing) given(now time.Time, body []byte) {
	if t.site == nil || t.status != http.StatusOK && t.status != 226 {
		return
	}
	g := giver{w: t.front.w, at: now, site: t.site.base, to: "reader"}
	if t.from != nil {
		g.to = t.from.name
	}
	switch {
	case t.header.Get("Content-Encoding") == "dcz":
		g.delta("delta", t.url(), t.body)
	case t.door == "manifest":
		g.manifest(body)
	case t.door == "changes":
		g.message(body)
	case t.door == "batch":
		g.warc("batch", body)
	case t.door == "archive" && t.request.Header.Get("Range") == "":
		g.wacz(body)
	}
}

// decoded returns a body without its content coding.
func decoded(coding string, b []byte) []byte {
	var r io.Reader
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(b))
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(bytes.NewReader(b)); err == nil {
			defer d.Close()
			r = d
		}
	default:
		return b
	}
	if err != nil {
		return b
	}
	out, _ := io.ReadAll(r)
	return out
}

// stream forwards a WebSocket, and reads along.
func (t *passing) stream(w http.ResponseWriter) {
	backend, secure := t.site.door, false
	if t.site == t.front.w.sites[0] && t.front == t.site.front && t.front.w.nginx != nil {
		backend, secure = t.front.w.nginx.address, t.front.w.nginx.scheme == "https"
	}
	if !t.site.notified() {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	up, err := dial(backend, secure)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer up.Close()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		w.WriteHeader(http.StatusHTTPVersionNotSupported)
		return
	}
	down, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer down.Close()
	t.request.Header.Set("X-Forwarded-For", "127.0.0.1")
	t.request.Header.Set("Connection", "Upgrade")
	if err := t.request.Write(up); err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(up, down)
		up.Close()
	}()
	pr, pw := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		t.frames(bufio.NewReader(pr))
		io.Copy(io.Discard, pr)
	}()
	io.Copy(io.MultiWriter(pw, down), up) // read before it is forwarded
	pw.Close()
	down.Close()
	<-ended
	<-read
	q := record.Request{Began: t.began, Sent: t.sent, Ended: time.Now(), Host: t.request.Host, Address: net.JoinHostPort(t.front.ip, t.front.port), Conn: t.conn, Method: "GET", URL: t.url(),
		Header: map[string]string{"user-agent": t.request.UserAgent()}, Status: t.status, Door: "stream"}
	if t.from != nil {
		q.From = t.from.name
	}
	t.front.w.mu.Lock()
	defer t.front.w.mu.Unlock()
	t.front.w.rec.Requests = append(t.front.w.rec.Requests, q)
}

// frames reads the messages that a site sends over a WebSocket (RFC 6455).
func (t *passing) frames(r *bufio.Reader) {
	resp, err := http.ReadResponse(r, t.request)
	if err != nil {
		return
	}
	if t.status = resp.StatusCode; t.status != http.StatusSwitchingProtocols {
		return
	}
	var message []byte
	binaryMessage := false
	for {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		op, n := head[0]&15, uint64(head[1]&127)
		switch n {
		case 126:
			var b [2]byte
			io.ReadFull(r, b[:])
			n = uint64(binary.BigEndian.Uint16(b[:]))
		case 127:
			var b [8]byte
			io.ReadFull(r, b[:])
			n = binary.BigEndian.Uint64(b[:])
		}
		payload := make([]byte, min(n, 64<<20))
		if _, err := io.ReadFull(r, payload); err != nil {
			return
		}
		switch {
		case op >= 8:
			continue
		case op != 0:
			message, binaryMessage = nil, op == 2
		}
		if message = append(message, payload...); head[0]&128 == 0 {
			continue
		}
		if binaryMessage {
			message = decoded("zstd", message)
		}
		g := giver{w: t.front.w, at: time.Now(), site: t.site.base, to: "reader"}
		if t.from != nil {
			g.to = t.from.name
		}
		g.message(message)
	}
}
