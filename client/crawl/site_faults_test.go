package crawl_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/sitetest"
)

// said collects a crawler's log.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

// has counts the lines that hold all the words.
func (s *said) has(words ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
lines:
	for line := range strings.Lines(s.buf.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

func (s *said) log() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// untrusted starts a server whose certificate nobody has signed.
func untrusted(t *testing.T, set func(*httptest.Server)) *httptest.Server {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if set != nil {
		set(srv)
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// An untrusted certificate is reported at once, with the cause, by a crawler that
// follows the site, or keeps it fresh.
func TestBadCertificateIsReported(t *testing.T) {
	srv := untrusted(t, nil)
	for name, c := range map[string]*crawl.Engine{"run": running(t, t.TempDir(), srv.URL+"/"), "follow": copyOf(t, srv.URL)} {
		t.Run(name, func(t *testing.T) {
			s := new(said)
			c.Log = s.log()
			end := begin(t, c)
			until(t, c, "the certificate is reported", func() bool { return s.has("level=WARN", srv.URL, "certificate") > 0 })
			end()
			for site := range c.Collection.Sites() { // what is stored when it has ended
				if !strings.Contains(site.Fault, "certificate") {
					t.Errorf("the fault of %s is %q", site.Origin, site.Fault)
				}
			}
		})
	}
}

// If a site's robots.txt is unavailable, all its due pages wait until robots.txt is fetched
// again, however soon that is: they neither use up CPU nor keep the crawl from ending.
func TestWaitingForRobotsUsesNoCPU(t *testing.T) {
	var tries atomic.Int64
	srv := untrusted(t, func(srv *httptest.Server) {
		srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				tries.Add(1)
			}
		}
	})
	c := running(t, t.TempDir(), srv.URL+"/docs/") // whose manifest is tried below the path, too
	c.Hurry = 10 * time.Millisecond
	end := begin(t, c)
	until(t, c, "robots.txt is fetched again", func() bool { return tries.Load() >= 5 })
	end()
}

// A crawl whose only errors are permanent (a certificate that is expired or of an unknown authority, or a
// TLS version that is too old) ends at once, has obtained nothing, and knows why.
func TestBadCertificateEndsCrawl(t *testing.T) {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	made := x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(-time.Hour), IsCA: true, BasicConstraintsValid: true}
	der := must.Get(x509.CreateCertificate(rand.Reader, &made, &made, key.Public(), key))
	for name, config := range map[string]*tls.Config{
		"certificate has expired": {Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		"unknown authority":       {},
		"protocol version":        {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"handshake failure":       {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := untrusted(t, func(srv *httptest.Server) { srv.TLS = config })
			c := crawler(t, "", srv.URL+"/")
			if name != "unknown authority" {
				known := x509.NewCertPool()
				known.AddCert(srv.Certificate())
				c.Harvester.Options.TLS = &tls.Config{RootCAs: known}
			}
			c.Patience, c.Hurry = time.Hour, time.Nanosecond // it would retry at once
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := c.Run(ctx); err != nil || ctx.Err() != nil {
				t.Fatalf("it ends with %v, %v", err, ctx.Err())
			}
			if s := c.Status(); !s.Nothing() || !strings.Contains(s.Trouble, name) {
				t.Errorf("a crawl that could reach no site has %+v", s)
			}
		})
	}
}

// For a site that announces changes, an outage is reported and shown; when its
// stream is back that is reported, too, though the site has no new changes.
func TestStreamRecoveryIsReported(t *testing.T) {
	site := sitetest.NewSite(t, map[string]string{"index.html": page("home"), "a.html": page("a")})
	site.Watch()
	for _, name := range []string{"run", "follow"} {
		t.Run(name, func(t *testing.T) {
			site.Heal()
			s := new(said)
			c := copyOf(t, site.Base)
			if name == "run" {
				c = running(t, t.TempDir(), site.Base)
			}
			c.Log, c.Hurry = s.log(), 50*time.Millisecond
			begin(t, c)
			until(t, c, "the site is followed by stream", func() bool {
				return heldIn(c.Collection) == 2 && s.has("connected", "door=stream") == 1
			})
			site.Break("/parley/stream", sitetest.Times(1, sitetest.Status(http.StatusBadGateway, 0)))
			site.Cut()
			until(t, c, "the outage is reported", func() bool { return s.has("level=WARN") > 0 })
			until(t, c, "the recovery of the stream is reported", func() bool {
				return s.has("connected", "door=stream") == 2 && (name == "follow" || s.has("site responds again") > 0) // a page may answer between the two failures
			})
			until(t, c, "the site has no fault", func() bool { return c.Status().Followed == 1 })
		})
	}
}

// A blinded Web cannot look up names at first.
type blinded struct {
	*fakeweb.Web
	until time.Time
}

func (b blinded) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if time.Now().Before(b.until) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Web.LookupNetIP(ctx, network, host)
}

// While names cannot be looked up the crawl pauses. A day later it has the same pages as without the outage.
func TestOutageOfTheResolver(t *testing.T) {
	noRace(t)
	stored := map[time.Duration]int{}
	for _, lasts := range []time.Duration{0, 10 * time.Minute, 3 * time.Hour} {
		inBubble(t, fakeweb.Options{Seed: 5, Sites: 40, Pages: 5, Kinds: []fakeweb.Kind{fakeweb.Honest}}, func(t *testing.T, w *bubble) {
			c := w.opened(t, func(o *crawl.Options) { o.Once = false })
			c.Harvester.Options.Resolver = blinded{w.Web, time.Now().Add(lasts)}
			runFor(t, c, lasts+aDay, nil)
			for p := range every(t, c.Collection.Pages(context.Background())) {
				if !p.Digest.IsZero() {
					stored[lasts]++
				}
			}
		})
		if stored[lasts] != stored[0] || stored[0] < 100 {
			t.Errorf("after an outage of %v, %d pages are stored, and %d without one", lasts, stored[lasts], stored[0])
		}
	}
}
