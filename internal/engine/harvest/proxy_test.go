package harvest_test

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyweb/parley/internal/engine/harvest"
	"github.com/parleyweb/parley/internal/must"
)

// A middleman is a proxy for both protocols.
type middleman struct {
	net.Listener
	answer string // to CONNECT; empty: it connects

	mu      sync.Mutex
	targets []string // with the credentials before them
}

func newMiddleman(t *testing.T, answer string) *middleman {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	m := &middleman{Listener: l, answer: answer}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(nc)
		}
	}()
	return m
}

func (m *middleman) serve(nc net.Conn) {
	defer nc.Close()
	in := bufio.NewReader(nc)
	read := func(n byte) []byte {
		b := make([]byte, n)
		io.ReadFull(in, b)
		return b
	}
	target, credentials, yes := "", "", "HTTP/1.1 200 Connected\r\n\r\n"
	if first, err := in.Peek(1); err != nil {
		return
	} else if first[0] == 5 { // RFC 1928 and 1929
		read(read(2)[1])
		nc.Write([]byte{5, 2})
		read(1)
		user := read(read(1)[0])
		credentials = string(user) + ":" + string(read(read(1)[0]))
		nc.Write([]byte{1, 0})
		b := read(10) // with an IPv4 address
		target, yes = fmt.Sprintf("%d.%d.%d.%d:%d", b[4], b[5], b[6], b[7], int(b[8])<<8|int(b[9])), "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	} else {
		r, err := http.ReadRequest(in)
		if err != nil || r.Method != http.MethodConnect {
			return
		}
		target = r.RequestURI
		r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
		user, password, _ := r.BasicAuth()
		credentials = user + ":" + password
	}
	m.mu.Lock()
	m.targets = append(m.targets, credentials+"@"+target)
	m.mu.Unlock()
	if m.answer != "" {
		io.WriteString(nc, m.answer)
		io.Copy(io.Discard, in)
		return
	}
	there, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer there.Close()
	io.WriteString(nc, yes)
	go func() {
		io.Copy(there, in)
		there.Close()
	}()
	io.Copy(nc, there)
}

// asked returns the targets of the connections so far, each once.
func (m *middleman) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.targets)
	return slices.Compact(slices.Clone(m.targets))
}

// through returns a Harvester that knows every name to be on this machine, and connects through a proxy.
func through(t *testing.T, proxy, ca string) *harvest.Harvester {
	t.Helper()
	local := resolver(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	h := &harvest.Harvester{Options: harvest.Options{Private: true, Wait: -1, Resolver: local, ConnectTimeout: 2 * time.Second}}
	var err error
	if h.Options.Dial, err = harvest.Proxy(proxy); err != nil {
		t.Fatal(err)
	}
	if h.Options.TLS, err = harvest.Authorities(ca); err != nil {
		t.Fatal(err)
	}
	return h
}

func fetched(t *testing.T, h *harvest.Harvester, origin string) *harvest.Answer {
	t.Helper()
	defer h.Close()
	return harvestAll(t, h, &harvest.Batch{Sites: []harvest.SiteBatch{{Origin: origin, Tasks: tasks(origin, 1)}}})[origin+"/0.html"]
}

// Pages, and all that a Transport fetches, come through the proxy, with TLS and without. It is asked for the address that the name has
// here, and never for one that is forbidden.
func TestProxy(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "page of "+r.Host) })
	plain, secure := httptest.NewServer(page), httptest.NewTLSServer(page)
	defer plain.Close()
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.OK(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o644))
	for _, scheme := range []string{"http", "socks5"} {
		for _, s := range []*httptest.Server{plain, secure} {
			u, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			origin := u.Scheme + "://example.com:" + u.Port() // a name in the certificate
			m := newMiddleman(t, "")
			proxy := scheme + "://me:secret@" + m.Addr().String()
			h := through(t, proxy, ca)
			if a := fetched(t, h, origin); string(a.Body) != "page of "+"example.com:"+u.Port() {
				t.Errorf("%s, %s: %d %q %v: %q", scheme, u.Scheme, a.Status, a.Fault, a.Err, a.Body)
			}
			resp, err := (&http.Client{Transport: h.Transport(origin)}).Get(origin + "/robots.txt")
			if err != nil {
				t.Fatalf("%s, %s: %v", scheme, u.Scheme, err)
			}
			resp.Body.Close()
			if want := []string{"me:secret@127.0.0.1:" + u.Port()}; !slices.Equal(m.asked(), want) {
				t.Errorf("%s, %s: the proxy was asked for %q, want %q", scheme, u.Scheme, m.asked(), want)
			}
			m = newMiddleman(t, "")
			h = through(t, scheme+"://me:secret@"+m.Addr().String(), ca)
			h.Options.Private = false
			if a := fetched(t, h, origin); a.Fault != harvest.FaultAddress || len(m.asked()) > 0 {
				t.Errorf("%s, %s: a private address: %q %v, asked for %q", scheme, u.Scheme, a.Fault, a.Err, m.asked())
			}
		}
	}
}

// What a proxy refuses, or does wrong, is named, and no page comes of it.
func TestProxyRefuses(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\n\r\n":                                         "CONNECT 127.0.0.1:80 was answered 403 Forbidden",
		"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad": "bytes before a request was sent",
		"SSH-2.0-OpenSSH_9.2\r\n":                                                "malformed HTTP",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n":       "unexpected EOF",
		"HTTP/1.1 200 OK\r\n":                                                    "deadline exceeded",
	} {
		m := newMiddleman(t, answer)
		h := through(t, "http://"+m.Addr().String(), "")
		if want == "deadline exceeded" {
			h.Options.ConnectTimeout = 500 * time.Millisecond
		}
		a := fetched(t, h, "http://www.example.com")
		if a.Status != 0 || a.Err == nil || !strings.Contains(a.Err.Error(), want) || !strings.Contains(a.Err.Error(), "proxy 127.0.0.1:") {
			t.Errorf("%.60q: %d %q %v, want %s", answer, a.Status, a.Fault, a.Err, want)
		}
	}
	for _, address := range []string{"127.0.0.1:3128", "http://127.0.0.1", "socks4://127.0.0.1:1080", "http://:3128", "http://me:secret@127.0.0.1:x/", "https://me:secret@127.0.0.1:443"} {
		if _, err := harvest.Proxy(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A file of authorities without a certificate is an error: without it, nothing would be trusted that should be.
func TestAuthorities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if _, err := harvest.Authorities(file); err == nil {
		t.Error("a missing file is accepted")
	}
	must.Write(t, file, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	if _, err := harvest.Authorities(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file without a certificate: %v", err)
	}
}
