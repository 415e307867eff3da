package crawl_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
)

// moving is a resolver whose answer for a name can be changed.
type moving struct {
	mu sync.Mutex
	to []netip.Addr
}

func (m *moving) move(to ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = nil
	for _, s := range to {
		m.to = append(m.to, netip.MustParseAddr(s))
	}
}

func (m *moving) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.to, nil
}

// A site that was followed at a public address, and whose name one day resolves into a private
// network, gets no requests there: neither from the running follower nor after a restart.
func TestNameMovedToPrivateAddress(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second []string
		allow, asked  bool // at the second
	}{
		{"to the cloud metadata address", []string{"20.1.1.1"}, []string{"169.254.169.254"}, false, false},
		{"to loopback", []string{"20.1.1.1"}, []string{"::1", "127.0.0.1"}, false, false},
		{"to private and public", []string{"20.1.1.1"}, []string{"10.0.0.1", "20.1.1.2"}, false, true},
		{"to private, allowed", []string{"20.1.1.1"}, []string{"10.0.0.1"}, true, true},
		{"from public to public", []string{"20.1.1.1"}, []string{"20.1.1.2"}, false, true},
		{"from private to private", []string{"10.0.0.1"}, []string{"10.0.0.2"}, false, true},
		{"from private to public", []string{"10.0.0.1"}, []string{"20.1.1.1"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pipe(t, map[string]string{"a": "A"})
				names := &moving{}
				names.move(c.first...)
				var mu sync.Mutex
				var dialled []string
				dial := s.web.Options.Dial
				s.web.Options.Resolver = names
				s.web.Options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					mu.Lock()
					dialled = append(dialled, address)
					mu.Unlock()
					return dial(ctx, network, address)
				}
				inside := func() (at string) {
					mu.Lock()
					defer mu.Unlock()
					for _, a := range dialled {
						if ip := netip.MustParseAddrPort(a).Addr(); ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
							at = a
						}
					}
					dialled = nil
					return at
				}
				k := s.follow(t, func(m *crawl.Copy) { m.Private = c.allow })
				k.equalAfter(time.Minute)
				inside()
				names.move(c.second...)
				wrong := strings.HasPrefix(c.first[0], "20.") && !c.allow
				for _, again := range []bool{false, true} {
					s.edit("a", "again "+time.Now().String())
					time.Sleep(3 * time.Hour)
					if at := inside(); at != "" && wrong {
						t.Errorf("dialled %s, restarted: %v", at, again)
					}
					// An open connection may continue for a while.
					if same := list(k.files()) == list(s.live()); same != c.asked && (c.asked || again) {
						t.Errorf("equals the site: %v, restarted: %v", same, again)
					}
					if again {
						break
					}
					k.stop()
					k.start()
				}
			})
		})
	}
}
