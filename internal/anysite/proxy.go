//go:build linux

package anysite

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
)

// elsewhere is the address from which a notifier fetches its own site through a proxy, as an anonymous client
// would.
const elsewhere = "127.77.77.76"

// A proxy sends requests from elsewhere, so that a client behind it is anonymous.
type proxy struct {
	names    *names
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

func serveProxy(n *names) (*proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{names: n, listener: ln, done: make(chan struct{})}
	forward := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, ErrorLog: quiet,
		Transport:    &http.Transport{DialContext: p.dial, DisableCompression: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	p.server = &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			p.connect(w, r)
		} else {
			forward.ServeHTTP(w, r)
		}
	})}
	go func() {
		defer close(p.done)
		p.server.Serve(ln)
	}()
	return p, nil
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

func (p *proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(elsewhere)}}
	return d.DialContext(ctx, network, net.JoinHostPort(p.names.address(host), port))
}

// connect forwards bytes in both directions.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request) {
	up, err := p.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer up.Close()
	down, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer down.Close()
	io.WriteString(down, "HTTP/1.1 200 Connected\r\n\r\n")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(up, down)
		up.Close()
	}()
	io.Copy(down, up)
	down.Close()
	<-ended
}

func (p *proxy) close() {
	p.server.Close()
	<-p.done
}
