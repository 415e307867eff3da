package siteflags

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/site/evidence"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/inventory"
)

// asks are the options for fetching the site's own pages anonymously, which shows what the web server serves to
// anybody. Without that no page contents are delivered.
type asks struct {
	keeper evidence.Keeper
	via    string
}

func (a *asks) options(rate float64) []command.Flag {
	a.keeper.Rate, a.keeper.For = rate, 24*time.Hour
	return []command.Flag{
		command.Bind("ask-rate", &a.keeper.Rate, "fetch at most `N` pages a second anonymously from the web server, to check that they are public: refused pages are withdrawn, and only content served to an anonymous client is delivered; edited pages are checked at once (0: no checks)"),
		command.Bind("ask-via", &a.via, "send the anonymous checks through the proxy at `URL`, on another machine: a web server at a loopback or private address may treat this machine differently"),
		command.Bind("ask-again", &a.keeper.For, "an anonymous check of a page is valid for `TIME`, and repeated before it expires"),
	}
}

func (a *asks) check() error {
	switch k := &a.keeper; {
	case k.Rate < 0 || k.Rate > 1e6:
		return command.Misusef("--ask-rate %g: want 0 to 1000000", k.Rate)
	case k.For < 10*time.Millisecond:
		return command.Misusef("--ask-again: want at least 10ms")
	}
	if a.via == "" {
		return nil
	}
	u, err := url.Parse(a.via)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
		return command.Misusef("--ask-via %q: want http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT", a.via)
	}
	a.keeper.Via = u
	return nil
}

// HTTP returns the client of a self-check: through the proxy of --ask-via, or nil for direct requests. Call Check before.
func (f *Flags) HTTP() *http.Client {
	via := f.asks.keeper.Via
	if via == nil {
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
	k := &f.asks.keeper
	k.Journal, k.Hurry, k.Logger = j, f.Hurry, log
	k.Moved(f.Base, f.journal.Former)
	k.Trusted = f.forms.Trust || f.forms.Serve // pages served here are public
	return k, k.Open()
}
