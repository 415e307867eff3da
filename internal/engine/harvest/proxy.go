package harvest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/proxy"
)

// A dial connects to an IP address and port, as Options.Dial does.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Proxy returns a Dial for Options that connects through a proxy: http://HOST:PORT, which must allow CONNECT to the ports of the sites, or
// socks5://HOST:PORT, each with USER:PASSWORD@ before HOST if the proxy wants that. No address, no Dial.
//
// Host names are looked up here, and the proxy is asked for the IP address that was checked: so what is forbidden as an address stays
// forbidden, and the limits of an address hold. The address of the proxy itself may be any.
func Proxy(address string) (dial, error) {
	if address == "" {
		return nil, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "socks5" {
		return nil, errors.New("want http://HOST:PORT or socks5://HOST:PORT") // a URL may have a password, and is not repeated
	}
	password, _ := u.User.Password()
	if u.Scheme == "socks5" {
		var auth *proxy.Auth
		if u.User != nil {
			auth = &proxy.Auth{User: u.User.Username(), Password: password}
		}
		d, err := proxy.SOCKS5("tcp", u.Host, auth, nil)
		if err != nil {
			return nil, err
		}
		return d.(proxy.ContextDialer).DialContext, nil
	}
	header := ""
	if u.User != nil {
		header = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)) + "\r\n"
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
		if err == nil {
			if err = tunnel(ctx, nc, address, header); err == nil {
				return nc, nil
			}
			nc.Close()
		}
		return nil, fmt.Errorf("proxy %s: %w", u.Host, err)
	}, nil
}

// tunnel asks the HTTP proxy at the other end of a connection to connect to an address.
func tunnel(ctx context.Context, nc net.Conn, address, header string) error {
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprintf(nc, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", address, address, header); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(nc, maxHeader))
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("CONNECT %s was answered %s", address, resp.Status)
	case in.Buffered() > 0:
		return errors.New("bytes before a request was sent")
	case !stop():
		return context.Cause(ctx)
	}
	return nil
}

// ClientCert returns a certificate with its key, from PEM files, for Options.Cert. If nothing is named, there is none.
func ClientCert(cert, key, host string) (*tls.Certificate, error) {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case cert+key+host == "":
		return nil, nil
	case cert == "" || key == "" || host == "":
		return nil, errors.New("want a certificate, its key and a host, all three")
	case err != nil && strings.ContainsAny(host, "/:"):
		return nil, fmt.Errorf("host %s: want a name such as www.example.org or an address, without scheme and port", host)
	}
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// Authorities returns a configuration for Options.TLS that trusts the certificate authorities of the system and those in a PEM file. No
// file, no configuration.
func Authorities(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil { // the system has none
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", file)
	}
	return &tls.Config{RootCAs: pool}, nil
}
