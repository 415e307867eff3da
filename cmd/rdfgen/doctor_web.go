package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

const (
	doctorAgent = "parley-doctor"
	doctorWait  = 10 * time.Second // for one response
	doctorPace  = 50 * time.Millisecond
)

// get fetches a URL, through the proxy of --ask-via if there is one. No HTTP status is an error.
func (d *doctor) get(ctx context.Context, via *http.Client, url string) (*fetch.Answer, []byte, error) {
	c := fetch.Client{Agent: doctorAgent, Timeout: doctorWait, MaxBytes: protocol.MaxMessage}
	if via != nil {
		c.Transport = via.Transport
	}
	a, err := c.Get(ctx, url, nil)
	if err != nil {
		return nil, nil, err
	}
	defer a.Close()
	b, err := a.Bytes()
	return a, b, err
}

// A failure is a door that does not answer as it should.
type failure struct {
	status int // of HTTP; 0 if there was no response
	says   string
}

// describes fetches the description of the site from a URL, and returns what is wrong with it; nil if nothing.
func (d *doctor) describes(ctx context.Context, via *http.Client, url string) *failure {
	a, b, err := d.get(ctx, via, url)
	var said protocol.Discovery
	switch {
	case err != nil:
		return &failure{0, err.Error()}
	case !a.OK():
		return &failure{a.Status, "the answer is " + a.Says()}
	case json.Unmarshal(b, &said) != nil:
		return &failure{a.Status, "the answer is no description of a site, but " + a.Header.Get("Content-Type")}
	case said.Base != d.job.site.Base:
		return &failure{a.Status, "it describes " + said.Base}
	}
	return nil
}

// changes polls the changes after the newest one.
func (d *doctor) changes(ctx context.Context, via *http.Client, door string) *failure {
	a, b, err := d.get(ctx, via, door+"?after="+url.QueryEscape(d.status.Head.String()))
	if err != nil {
		return &failure{0, err.Error()}
	}
	if !a.OK() {
		return &failure{a.Status, "the answer is " + a.Says()}
	}
	if m, err := protocol.ParseMessage(b); err != nil || m.Kind != protocol.Batch {
		return &failure{a.Status, "the answer is not a list of changes, but " + a.Header.Get("Content-Type")}
	}
	return nil
}

// stream subscribes, and waits for the first message.
func (d *doctor) stream(ctx context.Context, via *http.Client, door string) *failure {
	conn, err := wsconn.Dial(ctx, door+"?after="+url.QueryEscape(d.status.Head.String()), http.Header{"User-Agent": {doctorAgent}}, via,
		wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage, Handshake: doctorWait})
	var refused *wsconn.StatusError
	switch {
	case errors.As(err, &refused):
		return &failure{refused.Status, fmt.Sprintf("the handshake is answered %d %s", refused.Status, http.StatusText(refused.Status))}
	case err != nil:
		return &failure{0, err.Error()}
	}
	defer conn.Close(1000, "")
	ctx, stop := context.WithTimeout(ctx, doctorWait)
	defer stop()
	if b, err := conn.Read(ctx); err != nil {
		return &failure{0, "it opens, but no message arrives: " + err.Error()}
	} else if m, err := protocol.ParseMessage(b); err != nil || m.Kind != protocol.Hello {
		return &failure{0, "it does not begin with hello"}
	}
	return nil
}

// start is how a notifier is started.
const start = "start it (systemctl enable --now parley-notifier); its log says why it ended"

// doors checks that the notifier answers, and that the web server forwards its doors to it.
func (d *doctor) doors(ctx context.Context, streams bool) {
	site := &d.job.site
	about, via := doors.Describe(site.Base), site.HTTP()
	described := d.describes(ctx, via, about.Discovery)
	if !d.notifier {
		switch {
		case d.held:
			d.add("notifier", note, "rdfgen is scanning the site at this moment", "run doctor again")
		case described == nil:
			d.add("notifier", fault, "one answers at "+about.Discovery+", but it does not use the state "+site.State,
				"give doctor the options of the notifier, and run it as root or as the same user; or give both one --config")
		case slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, described.status):
			d.add("notifier", fault, "none is running, but the web server forwards "+about.Discovery+" to one: "+described.says, start)
		default:
			d.add("notifier", note, "none is running: changes are found when rdfgen runs, and crawlers poll the manifest", "")
		}
		return
	}
	path := strings.TrimPrefix(about.Discovery, protocol.Origin(site.Base))
	if f := d.describes(ctx, nil, "http://"+d.listen+path); f != nil {
		d.add("notifier", fault, fmt.Sprintf("it runs, but not for %s at %s: %s", site.Base, d.listen, f.says), "give doctor, the notifier and the web server the same address: --listen, and proxy_pass in nginx")
		return
	}
	d.add("notifier", fine, "running, at "+d.listen, "")
	if !d.status.Whole {
		return // its doors open when the first scan is over
	}
	before := len(d.found)
	forward := func(door string, f *failure, location, more string) {
		if f == nil {
			return
		}
		fix := fmt.Sprintf("let the web server forward it to %s. \"rdfgen setup\" does that for nginx:\nlocation %s { proxy_pass http://%s;%s }", d.listen, location, d.listen, more)
		if f.status == http.StatusBadGateway || f.status == http.StatusGatewayTimeout {
			fix = "the web server forwards it, but not to " + d.listen + ", where the notifier listens: correct proxy_pass, or --listen"
		}
		d.add("doors", fault, door+": "+f.says, fix)
	}
	below := strings.TrimPrefix(site.Base, protocol.Origin(site.Base))
	forward(about.Discovery, described, "= "+path, "")
	changes := d.changes(ctx, via, about.Changes)
	forward(about.Changes, changes, below+"parley/", "")
	if streams && changes == nil {
		if f := d.stream(ctx, via, about.Stream); f != nil {
			d.add("doors", fault, about.Stream+": "+f.says, fmt.Sprintf("let the web server, and everything before it, forward WebSocket. nginx:\n"+
				"location %sparley/ { proxy_pass http://%s; proxy_http_version 1.1;\n    proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\"; proxy_read_timeout 90s; }", below, d.listen))
		}
	}
	if len(d.found) == before {
		on := "the description and the changes are"
		if streams {
			on = "the description, the changes and the stream are"
		}
		d.add("doors", fine, on+" reached through the web server", "")
	}
}

// findings adds what rdfgen check says of a document, without its pages. cure is what to do if it cannot be fetched. It
// returns how many findings there are, and how many of them are faults.
func (d *doctor) findings(ctx context.Context, name, url, cure string) (all, faults int) {
	c := check.Checker{Client: d.job.site.HTTP(), Agent: doctorAgent, Sample: -1, Every: doctorPace, Wait: time.Minute, Log: d.job.env.Log}
	r, err := c.URL(ctx, url)
	if err != nil {
		d.add(name, fault, err.Error(), cure)
		return 1, 1
	}
	for _, f := range r.Findings {
		state, fix := note, f.Fix
		if f.Severity == check.Error || f.Rule == "wrong-type" {
			state = fault
			faults++
		}
		if f.Rule == "status" || f.Rule == "unreachable" {
			fix = cure
		}
		d.add(name, state, url+": "+f.Message, fix)
	}
	return len(r.Findings), faults
}

// manifest checks that the web server serves the manifest that was published last.
func (d *doctor) manifest(ctx context.Context) {
	url := d.job.site.ManifestURL()
	const fix = "let the web server serve the file of --out, or forward its URL to a notifier that runs, with no cache before it"
	if _, faults := d.findings(ctx, "robots.rdf", url, fix); faults > 0 {
		return
	}
	c := fetch.Client{Agent: doctorAgent, Timeout: time.Minute, MaxBytes: server.MaxManifest}
	if via := d.job.site.HTTP(); via != nil {
		c.Transport = via.Transport
	}
	a, err := c.Get(ctx, url, nil)
	if err != nil {
		d.add("robots.rdf", fault, url+": "+err.Error(), fix)
		return
	}
	defer a.Close()
	head, err := protocol.ReadManifestHead(a, protocol.ManifestOptions{URL: url})
	want := d.status.Manifest
	if want.IsZero() {
		want = d.status.Head // rdfgen ends when it has written the manifest
	}
	switch at := head.Cursor; {
	case err != nil:
		d.add("robots.rdf", fault, url+": "+err.Error(), fix)
	case want.IsZero():
		d.add("robots.rdf", note, fmt.Sprintf("%s is at %s; what was published last is unknown", url, at), "")
	case at.Epoch != want.Epoch:
		d.add("robots.rdf", fault, fmt.Sprintf("%s is at %s, which is not of this state, at %s", url, at, want), fix)
	case at.Seq < want.Seq:
		d.add("robots.rdf", fault, fmt.Sprintf("%s is out of date: at %s, while %s was published", url, at, want), fix)
	default:
		d.add("robots.rdf", fine, fmt.Sprintf("%s is current, at %s", url, at), "")
	}
}

// robots checks the robots.txt of a site at the root of its host.
func (d *doctor) robots(ctx context.Context) {
	url := protocol.Origin(d.job.site.Base) + "/robots.txt"
	if url != d.job.site.Base+"robots.txt" {
		return
	}
	if all, _ := d.findings(ctx, "robots.txt", url, "check that the web server runs, and that base is its URL"); all == 0 {
		d.add("robots.txt", fine, url+" has no mistakes", "")
	}
}

// pages compares some published pages with what the web server serves, and says what that proves.
func (d *doctor) pages(ctx context.Context) {
	site := &d.job.site
	if d.status.Head.IsZero() || !d.status.Whole {
		return
	}
	var checked server.Checked
	err := error(nil)
	if d.held {
		err = server.Ask(ctx, site.State, "POST", "/self-check", &checked)
	} else {
		var journal *server.Journal
		if journal, err = server.OpenJournal(ctx, site.State, server.JournalOptions{Base: site.Base, ReadOnly: true, Log: d.job.env.Log}); err == nil {
			defer journal.Close()
			checked, err = server.SelfCheck(ctx, journal, site.HTTP(), 0)
		}
	}
	if err != nil {
		d.add("pages", fault, err.Error(), "")
		return
	}
	for _, f := range checked.Findings {
		d.add("pages", fault, fmt.Sprintf("%d of %d: %s, such as %s (%s)", f.Pages, f.Of, f.Problem, f.URL, f.Detail), f.Cure)
	}
	if len(checked.Findings) == 0 {
		d.add("pages", fine, fmt.Sprintf("%d of %d pages were fetched, and the web server serves them as published", checked.Looked, checked.Of), "")
	}
	switch e := d.shown; {
	case checked.Inside != "":
		d.add("evidence", note, "pages, such as "+checked.Inside+", are answered from a loopback or private address: that proves little about what other machines get", "name a proxy on another machine: --ask-via http://HOST:PORT, for the notifier too")
	case e != nil:
		d.add("evidence", fine, e.String(), "")
	}
}
