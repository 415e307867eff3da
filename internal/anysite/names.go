//go:build linux

package anysite

import (
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// names is a DNS server for the names of one world.
type names struct {
	conn net.PacketConn
	done chan struct{}

	mu    sync.Mutex
	hosts map[string]netip.Addr
}

func serveNames() (*names, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &names{conn: conn, done: make(chan struct{}), hosts: map[string]netip.Addr{}}
	go func() {
		defer close(n.done)
		buf := make([]byte, 1500)
		for {
			k, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := n.answer(buf[:k]); answer != nil {
				conn.WriteTo(answer, from)
			}
		}
	}()
	return n, nil
}

func (n *names) set(host, ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = netip.MustParseAddr(ip)
}

// address returns the address of a host in this world, or the host itself.
func (n *names) address(host string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.hosts[host]; ok {
		return a.String()
	}
	return host
}

func (n *names) answer(question []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(question)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	n.mu.Lock()
	addr, ok := n.hosts[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	n.mu.Unlock()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true, RecursionAvailable: true, RecursionDesired: h.RecursionDesired}, Questions: []dnsmessage.Question{q}}
	switch {
	case !ok:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: addr.As4()}}}
	}
	b, err := m.Pack()
	if err != nil {
		return nil
	}
	return b
}

func (n *names) close() {
	n.conn.Close()
	<-n.done
}
