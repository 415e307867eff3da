package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/parleyweb/parley/cmd/internal/siteflags"
	"github.com/parleyweb/parley/internal/site/agent"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/cel"
	"github.com/parleyweb/parley/server/doors"
	"github.com/parleyweb/parley/server/inventory"
	"github.com/parleyweb/parley/server/versions"
)

// deliveries are the forms, and what identified crawlers get besides. Callers and agents may be nil.
type deliveries struct {
	*forms.Forms
	agents  *agent.Host
	callers *caller.Callers
}

// newDeliveries returns what the options enable, for an inventory and its journal.
func newDeliveries(site *siteflags.Flags, on siteflags.Forms, inv inventory.Inventory, j *server.Journal, log *slog.Logger) (_ *deliveries, err error) {
	d := &deliveries{}
	if on.Callers != "" {
		if d.callers, err = readCallers(on.Callers, log); err != nil {
			return nil, err
		}
	}
	evidence, err := site.Evidence(inv, j, log)
	if err != nil {
		return nil, err
	}
	docroot := siteflags.DocrootOf(inv)
	d.Forms = forms.New(on.Options, forms.Site{Base: site.Base, State: site.State, Inventory: inv, Docroot: docroot, Journal: j,
		Evidence: evidence, Hurry: site.Hurry, Where: new(cel.Expressions).Compile, Log: log})
	if docroot == nil && d.Versions != nil {
		site.Fetched(d.Versions.Seeing)
	}
	if d.callers != nil && d.callers.Agents() && !on.Shared {
		self, err := os.Executable()
		if err == nil {
			d.agents, err = agent.Open(site.State+".agents", agent.Options{Command: []string{self, agent.ProcessName}, Logger: log})
		}
		if err != nil {
			log.Warn("no programs of crawlers are accepted or run: their directory cannot be used", "err", err)
			d.agents = nil
		}
	}
	return d, nil
}

// readCallers reads the option --callers.
func readCallers(file string, log *slog.Logger) (*caller.Callers, error) {
	callers, err := caller.Read(file)
	if err != nil {
		return nil, fmt.Errorf("--callers: %w", err)
	}
	callers.Logger = log
	return callers, nil
}

// offer adds the deliveries to a notifier.
func (d *deliveries) offer(n *doors.Notifier, inv inventory.Inventory, j *server.Journal) {
	d.Offer(n)
	if d.agents != nil {
		n.Clients.Agents = d.agents
		n.Content.Items = server.Moments(j) // programs run on all current items, too
	}
	if d.callers != nil {
		n.Clients.Identify = d.callers.Identify
		n.Clients.PublicTo = siteflags.RulesOf(inv).PublicTo
	}
}

// own runs the deliveries. The programs end with everything else: requests under way are answered without them.
func (d *deliveries) own(ctx context.Context, own func(what string, run func() error)) {
	d.Own(ctx, own)
	if d.agents != nil {
		own("agents", func() error { <-ctx.Done(); return d.agents.Close() })
	}
}

// withPages adds the pages themselves to the doors of the notifier, if they are
// served here.
func withPages(n *doors.Notifier, pages *versions.Handler, base string) http.Handler {
	u, err := url.Parse(base)
	if pages == nil || err != nil {
		return n
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		below, ours := strings.CutPrefix(r.URL.Path, u.Path)
		if ours && below == "robots.rdf" && pages.Redirect(w, r) { // crawlers believe in a move of the site only if it is redirected, too
			return
		}
		if !ours || doors.IsDoor(below) || r.URL.Path == "/"+protocol.DiscoveryPath {
			n.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// deliveryStatus is the state of the deliveries.
type deliveryStatus struct {
	forms.Status
	Agents *agent.Stats `json:"agents,omitempty"`
}

func (d *deliveries) status(n *doors.Notifier) deliveryStatus {
	s := deliveryStatus{Status: d.Status(n)}
	if d.agents != nil {
		a := d.agents.Stats()
		s.Agents = &a
	}
	return s
}
