//go:build linux

package anysite

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Three requests of one HTTP/2 connection are waiting when the tap reads: for each the tap knows the interval
// in which it arrived, and for the last the moment, in whatever order their handlers start.
func TestRequestsInOneReadKeepTheirTimes(t *testing.T) {
	ln, err := listenStamped("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ln.tls = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2"}}

	shaken, sent := make(chan error, 1), make(chan error, 1)
	paths := []string{"/news?wait=30", "/about", "/robots.txt"}
	before := map[string]time.Time{}
	go func() {
		sent <- func() error {
			c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			shaken <- err
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
			var frames, block bytes.Buffer
			frames.WriteString(http2.ClientPreface)
			framer, fields := http2.NewFramer(&frames, nil), hpack.NewEncoder(&block)
			framer.WriteSettings()
			for i, path := range paths {
				for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "a.test"}, {Name: ":path", Value: path}} {
					fields.WriteField(f)
				}
				b := block.Bytes()
				framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: b[:3], EndStream: true, PadLength: 7, Priority: http2.PriorityParam{Weight: 9}})
				framer.WriteContinuation(uint32(2*i+1), true, b[3:])
				before[path] = time.Now()
				if _, err := c.Write(frames.Bytes()); err != nil {
					return err
				}
				frames.Reset()
				block.Reset()
			}
			return nil
		}()
	}()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := nc.(*openedConn)
	if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for len(c.waiting) < len(paths) {
		if _, err := c.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	read := time.Now() // a busy system may deliver what was sent only after the sender went on
	for i, path := range []string{paths[1], paths[0], paths[2]} {
		at := c.when(httptest.NewRequest(http.MethodGet, path, nil))
		if at.earliest.After(read) || at.latest.Before(before[path]) || at.latest.Before(at.earliest) {
			t.Errorf("%s is stamped from %s to %s, but was sent at %s and read at %s", path, at.earliest, at.latest, before[path], read)
		}
		if i == 2 && (at.earliest.Before(before[path]) || at.latest.After(read)) {
			t.Errorf("the last one, %s, is stamped from %s to %s, but was sent at %s and read at %s", path, at.earliest, at.latest, before[path], read)
		}
	}
}
