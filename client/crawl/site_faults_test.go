package crawl_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/fakeweb"
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

// An untrusted certificate is reported at once, with the cause, by a crawler that
// follows the site, keeps it fresh, or crawls it; and a crawl that obtains nothing knows the reason.
func TestBadCertificateIsReported(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(new(said), "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	wait := func(s *said, done <-chan error) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); s.has("level=WARN", srv.URL, "certificate") == 0; time.Sleep(5 * time.Millisecond) {
			select {
			case err := <-done:
				t.Fatalf("it ended with %v and logged %s", err, s.buf.String())
			default:
			}
			if time.Now().After(deadline) {
				t.Fatalf("the certificate is not reported: %s", s.buf.String())
			}
		}
	}
	run := func(name string, c *crawl.Engine) {
		t.Run(name, func(t *testing.T) {
			defer c.Collection.Close()
			s := new(said)
			c.Log = s.log()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			wait(s, done)
			cancel()
			<-done
			for site := range c.Collection.Sites() { // what is stored when it has ended
				if !strings.Contains(site.Fault, "certificate") {
					t.Errorf("the fault of %s is %q", site.Origin, site.Fault)
				}
			}
		})
	}
	run("run", running(open(t, filepath.Join(t.TempDir(), "crawl")), srv.URL+"/"))
	copy := crawl.Copy{Base: srv.URL, Dir: t.TempDir()}
	c, err := copy.Open()
	if err != nil {
		t.Fatal(err)
	}
	run("follow", crawl.EngineOf(c))

	col := open(t, filepath.Join(t.TempDir(), "once"))
	defer col.Close()
	once := crawler(col, srv.URL+"/")
	once.Patience = time.Nanosecond
	if err := once.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := once.Status(); !s.Nothing() || !strings.Contains(s.Trouble, "certificate") {
		t.Errorf("a crawl that could reach no site has %+v", s)
	}
}

// If a site's robots.txt is unavailable, all its due pages wait until robots.txt is fetched
// again, however soon that is: they neither use up CPU nor keep the crawl from ending.
func TestWaitingForRobotsUsesNoCPU(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(new(said), "", 0)
	tries := make(chan struct{}, 1000)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			tries <- struct{}{}
		}
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	col := open(t, filepath.Join(t.TempDir(), "crawl"))
	defer col.Close()
	c := running(col, srv.URL+"/docs/") // whose manifest is tried below the path, too
	c.Hurry = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	for range 5 {
		select {
		case <-tries:
		case <-time.After(20 * time.Second):
			t.Fatal("robots.txt is not fetched again")
		}
	}
	cancel()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the crawl does not end")
	}
}

// A crawl whose only errors are permanent (a certificate that is expired or of an unknown authority, or a
// TLS version that is too old) ends at once, has obtained nothing, and knows why.
func TestBadCertificateEndsCrawl(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(-time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, &made, &made, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"certificate has expired": {Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		"unknown authority":       {},
		"protocol version":        {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"handshake failure":       {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.NotFoundHandler())
			srv.Config.ErrorLog, srv.TLS = log.New(new(said), "", 0), config
			srv.StartTLS()
			t.Cleanup(srv.Close)
			col := open(t, filepath.Join(t.TempDir(), "crawl"))
			defer col.Close()
			c := crawler(col, srv.URL+"/")
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
			var c *crawl.Engine
			if name == "run" {
				c = running(open(t, filepath.Join(t.TempDir(), "crawl")), site.Base)
			} else {
				copy := crawl.Copy{Base: site.Base, Dir: t.TempDir()}
				opened, err := copy.Open()
				if err != nil {
					t.Fatal(err)
				}
				c = crawl.EngineOf(opened)
			}
			defer c.Collection.Close()
			c.Log, c.Hurry = s.log(), 50*time.Millisecond
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Run(ctx) }()
			defer func() { cancel(); <-done }()
			until := func(what string, cond func() bool) {
				t.Helper()
				for deadline := time.Now().Add(60 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("timed out waiting until %s; log:\n%s", what, s.buf.String())
					}
				}
			}
			until("the site is followed by stream", func() bool {
				return heldIn(c.Collection) == 2 && s.has("connected", "door=stream") == 1
			})
			site.Break("/parley/stream", sitetest.Times(1, sitetest.Status(http.StatusBadGateway, 0)))
			site.Cut()
			until("the outage is reported", func() bool { return s.has("level=WARN") > 0 })
			until("the recovery of the stream is reported", func() bool {
				return s.has("connected", "door=stream") == 2 && (name == "follow" || s.has("site responds again") > 0) // a page may answer between the two failures
			})
			until("the site has no fault", func() bool { return c.Status().Followed == 1 })
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
		dir := scratch(t)
		synctest.Test(t, func(t *testing.T) {
			w := fakeweb.New(fakeweb.Options{Seed: 5, Sites: 40, Pages: 5, Kinds: []fakeweb.Kind{fakeweb.Honest}})
			defer w.Close()
			c := opened(t, dir, w, func(o *crawl.Options) { o.Once = false })
			defer c.Collection.Close()
			c.Harvester.Options.Resolver = blinded{w, time.Now().Add(lasts)}
			ctx, cancel := context.WithTimeout(t.Context(), lasts+24*time.Hour)
			defer cancel()
			if err := c.Run(ctx); err != nil {
				t.Fatal(err)
			}
			for p, err := range c.Collection.Pages(context.Background()) {
				if err != nil {
					t.Fatal(err)
				}
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
