package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/check"
	"github.com/parleyweb/parley/internal/fetch"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/internal/wsconn"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

const (
	doctorAgent   = "parley-doctor"
	doctorWait    = 10 * time.Second // for one response
	doctorAgain   = 2 * time.Second  // between two attempts
	selfCheckWait = 2 * time.Minute
	doctorPace    = 50 * time.Millisecond
)

const unreachable = "check that the web server runs, and that base is its URL"

func (d *doctor) client(most int64, via *http.Client) *fetch.Client {
	c := &fetch.Client{Agent: doctorAgent, Timeout: doctorWait, MaxBytes: most}
	if via != nil {
		c.Transport = via.Transport
	}
	return c
}

// answers fetches a URL of the notifier, and returns what is wrong with the answer, "" if nothing, and its status, 0 if there
// is none.
func (d *doctor) answers(ctx context.Context, via *http.Client, url string, isRight func([]byte) bool) (wrong string, status int) {
	a, err := d.client(protocol.MaxMessage, via).Get(ctx, url, nil)
	if err != nil {
		return err.Error(), 0
	}
	defer a.Close()
	b, err := a.Bytes()
	switch {
	case err != nil:
		return err.Error(), a.Status
	case !a.OK():
		return "the answer is " + a.Says(), a.Status
	case !isRight(b):
		return "the answer is not that of a notifier of " + d.job.site.Base, a.Status
	}
	return "", a.Status
}

// stream subscribes, and returns why no first message arrives; "" if it does.
func (d *doctor) stream(ctx context.Context, via *http.Client, url string) string {
	ctx, stop := context.WithTimeout(ctx, doctorWait)
	defer stop()
	conn, err := wsconn.Dial(ctx, url, http.Header{"User-Agent": {doctorAgent}}, via,
		wsconn.Options{Subprotocols: []string{protocol.Subprotocol}, MaxMessage: protocol.MaxMessage})
	if err != nil {
		return err.Error()
	}
	defer conn.Close(1000, "")
	b, err := conn.Read(ctx)
	if err != nil {
		return "it opens, but no message arrives: " + err.Error()
	}
	if m, err := protocol.ParseMessage(b); err != nil || m.Kind != protocol.Hello {
		return "it does not begin with hello"
	}
	return ""
}

// doors checks that the notifier answers, and that the web server forwards its doors to it.
func (d *doctor) doors(ctx context.Context, streams bool) {
	site := &d.job.site
	about, via, origin := doors.Describe(site.Base), site.HTTP(), protocol.Origin(site.Base)
	describes := func(b []byte) bool {
		var said protocol.Discovery
		return json.Unmarshal(b, &said) == nil && said.Base == site.Base
	}
	wrong, status := d.answers(ctx, via, about.Discovery, describes)
	if !d.notifier {
		switch {
		case d.held && d.status.Head.IsZero(): // the state's line says so
		case d.held:
			d.add("notifier", note, "rdfgen is scanning the site at this moment", "run doctor again")
		case wrong == "":
			d.add("notifier", fault, "one answers at "+about.Discovery+", but none can be asked at the state "+site.State,
				"give doctor the options of the notifier, and run it as root or as the same user; or give both one --config")
		case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
			d.add("notifier", fault, "none is running, but the web server forwards "+about.Discovery+" to one: "+wrong,
				"start it (systemctl enable --now parley-notifier); its log says why it ended")
		default:
			d.add("notifier", note, "none is running: changes are found when rdfgen runs, and crawlers poll the manifest", "")
		}
		return
	}
	if !d.status.Whole {
		d.add("notifier", note, "running, but its first scan is not over: until then it answers no crawler", "run doctor again when it is over")
		return
	}
	if wrong, _ := d.answers(ctx, nil, "http://"+d.listen+strings.TrimPrefix(about.Discovery, origin), describes); wrong != "" {
		d.add("notifier", fault, fmt.Sprintf("it runs, but not for %s at %s: %s", site.Base, d.listen, wrong),
			"give doctor, the notifier and the web server the same address: --listen, and proxy_pass in nginx")
		return
	}
	d.add("notifier", fine, "running, at "+d.listen, "")
	if wrong != "" && status == 0 {
		d.add("doors", fault, about.Discovery+": "+wrong, unreachable)
		return
	}
	forward := func(door, wrong, location, more string) {
		if wrong != "" {
			d.add("doors", fault, door+": "+wrong, fmt.Sprintf("let the web server, and everything before it, forward it. In nginx (\"rdfgen setup\" writes this):\nlocation %s { proxy_pass http://%s;%s }",
				strings.TrimPrefix(location, origin), d.listen, more))
		}
	}
	before, after := len(d.found), "?after="+url.QueryEscape(d.status.Head.String())
	forward(about.Discovery, wrong, "= "+strings.TrimPrefix(about.Discovery, origin), "")
	wrong, _ = d.answers(ctx, via, about.Changes+after, func(b []byte) bool {
		m, err := protocol.ParseMessage(b)
		return err == nil && m.Kind == protocol.Batch
	})
	what, door := "the description and the changes", about.Changes
	if streams {
		if what = "the description, the changes and the stream"; wrong == "" {
			wrong, door = d.stream(ctx, via, about.Stream+after), about.Stream
		}
	}
	forward(door, wrong, site.Base+"parley/", "\n    proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\"; proxy_read_timeout 90s;")
	if len(d.found) == before {
		d.add("doors", fine, what+" are reached through the web server", "")
	}
}

// senders names the receivers that a notifier cannot notify: a fault if that does not pass by itself.
func (d *doctor) senders(ctx context.Context) {
	if !d.notifier {
		return
	}
	var told struct {
		IndexNow ping.Status
		WebSub   []ping.PingStatus
		Hooks    []ping.HookStatus
	}
	asking, stop := context.WithTimeout(ctx, doctorWait)
	defer stop()
	if err := d.job.ask(asking, "GET", "/tellers", &told); err != nil {
		d.add("senders", note, err.Error(), "")
	}
	add := func(option, receiver, trouble string, lasts bool) {
		switch says := "--" + option + " " + receiver + ": " + trouble; {
		case trouble == "":
		case lasts:
			d.add("senders", fault, says, "correct the option, or the receiver")
		default:
			d.add("senders", note, says, "it is tried again by itself; if it goes on, correct the option, or the receiver")
		}
	}
	for _, e := range told.IndexNow.Engines {
		add("indexnow", e.Name, e.Trouble, unaccepted(e.Key))
	}
	for _, w := range told.WebSub {
		add("websub", w.Hub, w.Trouble, w.Failures >= manyFailures)
	}
	for _, h := range told.Hooks {
		add(h.Kind, h.Name, h.Trouble, h.Failures >= manyFailures)
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
		switch f.Rule {
		case "status", "unreachable", "out-of-time":
			fix = cure
		case "robots-unreachable":
			fix = unreachable
		case "wrong-type":
			if path, ok := strings.CutPrefix(url, protocol.Origin(url)); ok && strings.HasSuffix(path, ".rdf") {
				fix += ". In nginx, for a file: location = " + path + " { types { application/rdf+xml rdf; } }"
			}
		}
		d.add(name, state, url+": "+f.Message, fix)
	}
	return len(r.Findings), faults
}

// manifest checks that the web server serves the manifest that was published last.
func (d *doctor) manifest(ctx context.Context) {
	if d.job.site.Out == "" && !d.notifier && !d.status.Head.IsZero() {
		d.add("robots.rdf", note, "none is published", "name a file in the docroot with --out, or run the notifier")
		return
	}
	url := d.job.site.ManifestURL()
	const fix = "let the web server serve the file of --out, or forward its URL to a notifier that runs, with no cache before it"
	if _, faults := d.findings(ctx, "robots.rdf", url, fix); faults > 0 {
		return
	}
	a, err := d.client(server.MaxManifest, d.job.site.HTTP()).Get(ctx, url, nil)
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
	switch at := head.At(); {
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
	if all, _ := d.findings(ctx, "robots.txt", url, unreachable); all == 0 {
		d.add("robots.txt", fine, url+" has no mistakes", "")
	}
}

// pages compares some published pages with what the web server serves, and says what that proves.
func (d *doctor) pages(ctx context.Context) {
	site := &d.job.site
	if d.status.Head.IsZero() || !d.status.Whole {
		return
	}
	ctx, stop := context.WithTimeout(ctx, selfCheckWait)
	defer stop()
	var checked server.Checked
	err := error(nil)
	if d.held {
		err = d.job.ask(ctx, "POST", "/self-check", &checked)
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
	case checked.Inside != "" && (e == nil || !e.Trusted):
		d.add("evidence", note, "pages, such as "+checked.Inside+", are answered from a loopback or private address: that proves little about what other machines get, so the notifier delivers no page contents", "name a proxy on another machine: --ask-via http://HOST:PORT, for the notifier too")
	case e != nil:
		d.add("evidence", fine, e.String(), "")
	}
}
