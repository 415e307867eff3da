package siteflags

import (
	"flag"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/evidence"
	"github.com/parleyweb/parley/server/inventory"
)

// EvidenceFlags are the options of the checks of what the web server serves to anybody. Without a check no content of
// pages is delivered.
type EvidenceFlags struct {
	Rate  float64 // the default, if set before Define
	via   string
	again command.Duration
}

func (a *EvidenceFlags) define(fs *flag.FlagSet) {
	a.again = command.Duration(24 * time.Hour)
	fs.Float64Var(&a.Rate, "ask-rate", a.Rate, "fetch at most `N` pages a second anonymously from the web server, to check that they are public: refused pages are withdrawn, and only content served to an anonymous client is delivered; edited pages are checked at once (0: no checks)")
	fs.StringVar(&a.via, "ask-via", "", "send the anonymous checks through the proxy at `URL`, on another machine: a web server at a loopback or private address may treat this machine differently")
	fs.Var(&a.again, "ask-again", "an anonymous check of a page is valid for `TIME`, and repeated before it expires")
}

func (a *EvidenceFlags) check() error {
	switch {
	case a.Rate < 0 || a.Rate > 1e6:
		return command.Misusef("--ask-rate %g: want 0 to 1000000", a.Rate)
	case a.again < command.Duration(10*time.Millisecond):
		return command.Misusef("--ask-again: want at least 10ms")
	}
	if a.via == "" {
		return nil
	}
	u, err := url.Parse(a.via)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return command.Misusef("--ask-via %q: want http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT", a.via)
	}
	return nil
}

// HTTP returns the client of a self-check: through the proxy of --ask-via, or nil for direct requests.
func (a *EvidenceFlags) HTTP() *http.Client {
	via, err := url.Parse(a.via)
	if a.via == "" || err != nil {
		return nil
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(via), DisableCompression: true}}
}

// Evidence returns the keeper that fetches the pages of a docroot from the web server; nil for other sites,
// whose pages, if they are known at all, were fetched from there. Call Check before.
func (f *Flags) Evidence(inv inventory.Inventory, j *server.Journal, log *slog.Logger) (*evidence.Keeper, error) {
	if DocrootOf(inv) == nil {
		return nil, nil
	}
	a := &f.Asks
	k := &evidence.Keeper{Journal: j, Rate: a.Rate, For: time.Duration(a.again), Hurry: time.Duration(f.Hurry), Logger: log,
		Trusted: f.forms.Trust || f.forms.Serve} // pages served here are public
	if a.via != "" {
		k.Via, _ = url.Parse(a.via) // check has parsed it
	}
	return k, k.Open()
}
