package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

// A web has the hosts site-0.localhost, site-1.localhost and so on, each with an address of its own, and one port. Page 0 of a site is
// "/", page i is "/i.html". The pages are a tree of eight children each, with two links across, and so are the sites by their pages 0.
type web struct {
	port   int
	sites  atomic.Int64
	served atomic.Int64 // responses for pages
}

// serve answers until the listener is closed.
func (w *web) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go w.connection(c) // ends with the crawler's process at the latest
	}
}

func (w *web) connection(c net.Conn) {
	defer c.Close()
	in, out := bufio.NewReader(c), bufio.NewWriterSize(c, 16<<10)
	for {
		q, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		w.respond(out, q)
		if out.Flush() != nil { // it has the errors of all writes
			return
		}
	}
}

func (w *web) respond(out *bufio.Writer, q *http.Request) {
	site, i, ok := w.page(q)
	if !ok {
		io.WriteString(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		return
	}
	w.served.Add(1)
	tag := fmt.Sprintf(`"%d-%d"`, site, i)
	if q.Header.Get("If-None-Match") == tag {
		fmt.Fprintf(out, "HTTP/1.1 304 Not Modified\r\nETag: %s\r\n\r\n", tag)
		return
	}
	body := w.body(site, i)
	fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: %s\r\nContent-Length: %d\r\n\r\n%s", tag, len(body), body)
}

// page returns the numbers of the site and page of a request.
func (w *web) page(q *http.Request) (site, i int, ok bool) {
	host, _, _ := strings.Cut(q.Host, ":")
	site, err := number(host)
	if err != nil || int64(site) >= w.sites.Load() {
		return 0, 0, false
	}
	if q.URL.Path == "/" {
		return site, 0, true
	}
	name, ok := strings.CutSuffix(strings.TrimPrefix(q.URL.Path, "/"), ".html")
	i, err = strconv.Atoi(name)
	return site, i, ok && err == nil && i > 0 && i < perSite
}

// number returns the number of a site by its host.
func number(host string) (int, error) {
	name, _ := strings.CutSuffix(strings.TrimPrefix(host, "site-"), ".localhost")
	return strconv.Atoi(name)
}

// resolve answers DNS queries for addresses until the connection is closed.
func (w *web) resolve(c net.PacketConn) {
	b := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
		m.Additionals = nil
		if i, err := number(strings.TrimSuffix(q.Name.String(), ".")); err == nil && q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 3600},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 1, byte(i >> 8), byte(i)}},
			}}
		}
		if answer, err := m.Pack(); err == nil {
			c.WriteTo(answer, from) // the crawler asks again if it is lost
		}
	}
}

// body returns some 6 kB of HTML.
func (w *web) body(site, i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html><html lang=en><head><title>Page %d of site %d</title></head><body><h1>Page %d</h1>\n", i, site, i)
	word := uint32(site*perSite + i + 1)
	for range 40 {
		b.WriteString("<p>")
		for range 12 {
			word = word*1664525 + 1013904223
			fmt.Fprintf(&b, "word%d ", word>>22)
		}
		b.WriteString("</p>\n")
	}
	link := func(j int) {
		if j > 0 && j < perSite {
			fmt.Fprintf(&b, "<a href=\"/%d.html\">page %d</a>\n", j, j)
		}
	}
	for k := 1; k <= 8; k++ {
		link(8*i + k)
		if other := int64(8*site + k); i == 0 && other < w.sites.Load() {
			fmt.Fprintf(&b, "<a href=\"http://site-%d.localhost:%d/\">site %d</a>\n", other, w.port, other)
		}
	}
	link(i * 7 % perSite)
	link(i * 13 % perSite)
	b.WriteString("</body></html>\n")
	return b.String()
}
