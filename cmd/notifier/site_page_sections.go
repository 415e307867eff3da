package main

import (
	"fmt"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/report"
	"github.com/parleyweb/parley/server"
)

func showNeeds(v *siteView) g.Node {
	if len(v.Needs) == 0 {
		return h.P(h.Class("well"), g.Text("Nothing needs a person."))
	}
	return h.Ul(h.Class("tasks"), g.Map(v.Needs, func(n need) g.Node {
		again := ""
		if !n.RetryAt.IsZero() {
			again = " (next attempt at " + admin.At(n.RetryAt) + ")"
		}
		return h.Li(h.H3(g.Text(admin.Cut(60, n.About))), h.P(g.Text(admin.Cut(600, n.Text)+again)),
			g.Iff(n.Task != "", func() g.Node { return admin.Confirm(n.Task, fmt.Sprint(n.Seen), n.Sure, n.Button) }))
	}))
}

func showSite(v *siteView) g.Node {
	s := &v.Status
	newest, manifest, held := "none yet", "behind", "Missing pages"
	if !s.Head.IsZero() {
		newest = "epoch " + admin.Cut(20, s.Head.Epoch)
	}
	if s.Manifest == s.Head {
		manifest = "up to date"
	}
	if len(v.Held) < s.Held {
		held += fmt.Sprintf(", the first %d", len(v.Held))
	}
	return g.Group{
		admin.Figures(
			admin.Figure("Pages", g.Group{g.Text(admin.Count(s.Items)), g.If(!s.Whole, h.Small(g.Text("the first scan is in progress")))}),
			admin.Figure("Missing", g.Text(admin.Count(s.Held)), g.Text("not announced")),
			admin.Figure("Newest change", g.Text(admin.Count(s.Head.Seq)), g.Text(newest)),
			admin.Figure("Changes", g.Text(admin.Count(s.Changes)), g.Text("since the start")),
			admin.Figure("Last scan", admin.Ago(s.Last.At), g.Textf("took %s; %s, %s failed", s.Last.Duration.Round(time.Millisecond), admin.Many(s.Looks, "scan", "scans"), admin.Count(s.Failed))),
			admin.Figure("Manifest", g.Text(manifest), g.Textf("at %s; written %s", admin.Count(s.Manifest.Seq), admin.Many(s.Writes, "time", "times")))),
		g.If(s.Missed > 0, h.P(g.Text(admin.Many(s.Missed, "change was", "changes were")+" found by a regular scan, since no file system event had reported them."))),
		g.If(len(v.Held) > 0, h.Details(h.Summary(g.Text(held)), h.Ul(g.Map(v.Held, func(path string) g.Node { return h.Li(admin.Inside(200, path)) })))),
		h.Div(h.Class("buttons"),
			admin.Do("look", admin.Button("Scan now")),
			admin.Do("self-check", admin.Button("Compare some pages with the web server")),
			g.If(v.Rechecks, admin.Do("recheck", admin.Button("Check all pages on the web server again")))),
	}
}

func showListeners(v *siteView) g.Node {
	now := "Nobody is connected now."
	if len(v.Listeners) > 0 {
		now = admin.Count(v.Doors.Subscribers) + " connected; all have every change."
		if v.Furthest > 0 {
			now = admin.Count(v.Doors.Subscribers) + " connected; the furthest behind lacks " + admin.Many(v.Furthest, "change", "changes") + "."
		}
	}
	d := &v.Doors
	return g.Group{
		h.P(g.Textf("%s Since the start, %s delivered, in %s and %s, and %s. A client that polls the pages instead makes %s each time it checks all of them.", now,
			admin.Many(d.Told, "change was", "changes were"), admin.Many(d.Batches, "response", "responses"), admin.Many(d.Frames, "message", "messages"),
			admin.Many(d.Manifests, "manifest", "manifests"), admin.Many(v.Status.Items, "request", "requests"))),
		admin.Table("", []admin.Column{{Head: "Client"}, {Head: "Form"}, {Head: "By"}, {Head: "Since"}, {Head: "Has up to", Numbers: true}, {Head: "Behind", Numbers: true}}, v.Listeners,
			func(l listenerRow) []g.Node {
				client, by, behind := "unknown address", "long poll", "another epoch"
				switch {
				case l.Caller != "":
					client = l.Caller
				case l.Address != "":
					client = l.Address
				}
				if l.Stream {
					by = "stream"
				}
				if !l.Renewed {
					behind = admin.Count(l.Behind)
				}
				return []g.Node{g.Group{admin.Inside(60, client), below("", l.Agent, 80)},
					g.Text(string(l.As)), g.Text(by), admin.Ago(l.Since), g.Text(admin.Count(l.Cursor.Seq)), g.Text(behind)}
			}),
		unlisted(v.Unlisted, ""),
	}
}

// below returns a second line of a cell; nil without a text.
func below(before, text string, most int) g.Node {
	if text == "" {
		return nil
	}
	return g.Group{h.Br(), h.Small(h.Class("soft"), g.Text(before), admin.Inside(most, text))}
}

func unlisted(n int, where string) g.Node {
	if n == 0 {
		return nil
	}
	return admin.Soft(admin.Many(n, "more is", "more are") + " not listed" + where + ".")
}

func showChanges(v *siteView) g.Node {
	if len(v.Changes) == 0 {
		return admin.None("No change has been recorded since the first scan.")
	}
	return admin.Table("", []admin.Column{{Head: "Page"}, {Head: "Change"}, {Head: "Recorded"}, {Head: "Text changed", Numbers: true}, {Head: "Number", Numbers: true}, {Head: "Reached", Numbers: true}},
		v.Changes, func(c changeRow) []g.Node {
			text, reached := "–", "–"
			if c.Significance >= 0 {
				text = admin.Percent(c.Significance)
			}
			if all := v.Doors.Subscribers; all > 0 {
				reached = admin.Count(c.Reached) + " of " + admin.Count(all)
			}
			return []g.Node{g.Group{h.Class("url"), admin.Inside(160, c.Page), below("from ", c.Was, 160), below("", c.Item.Title, 120)},
				g.Text(string(c.Op)), admin.Ago(c.At), g.Text(text), g.Text(admin.Count(c.Seq)), g.Text(reached)}
		})
}

// state says whether something works.
func state(fails bool, why string) g.Node {
	if !fails {
		return g.Text("works")
	}
	return g.Group{h.Span(h.Class("bad"), g.Text("fails")), g.If(why != "", g.Text(": "+admin.Cut(300, why)))}
}

func showSenders(v *siteView) g.Node {
	if len(v.Senders) == 0 {
		return admin.None("No search engine, hub, command or webhook is notified.")
	}
	return g.Group{
		admin.Table("", []admin.Column{{Head: "Receiver"}, {Head: "By"}, {Head: "Accepted"}, {Head: "Waiting"}, {Head: "Last success"}, {Head: "State"}}, v.Senders, func(r senderRow) []g.Node {
			return []g.Node{admin.Inside(160, r.Name), g.Text(r.Kind), g.Text(r.Done), g.Text(r.Waiting), admin.Ago(r.LastAt), state(r.Trouble != "", "")}
		}),
		unlisted(v.MoreSenders, ""),
	}
}

func showOutputs(v *siteView) g.Node {
	if len(v.Status.Outputs) == 0 {
		return h.P(h.Class("none"), g.Text("No sitemap, feed or other file is written besides the manifest"),
			g.If(v.Status.Path != "", g.Group{g.Text(", "), g.El("bdi", h.Class("url"), g.Text(admin.Cut(200, v.Status.Path)))}), g.Text("."))
	}
	return admin.Table("", []admin.Column{{Head: "File"}, {Head: "Written", Numbers: true}, {Head: "Up to date"}, {Head: "State"}}, v.Status.Outputs, func(o server.OutputStatus) []g.Node {
		return []g.Node{admin.Inside(160, o.Name), g.Text(admin.Many(o.Writes, "time", "times")), admin.Ago(o.CurrentAt), state(o.Error != "", o.Error)}
	})
}

func showDelivery(v *siteView) g.Node {
	return g.Group{
		h.Dl(h.Class("facts"), g.Map(v.Facts, func(f fact) g.Node { return h.Div(h.Dt(g.Text(f.Name)), h.Dd(g.Text(admin.Cut(600, f.Text)))) })),
		g.If(v.Purges, admin.Do("purge", h.Label(h.For("purge"), g.Text("Discard what is stored of earlier content of a page")),
			h.Input(h.ID("purge"), h.Name("url"), h.Type("url"), h.Placeholder("https://"), h.Required()), admin.Button("Discard"))),
	}
}

func showCrawlers(v *siteView) g.Node {
	switch c := v.Costs; {
	case c == nil:
		return nil
	case c.Error != "":
		return h.P(g.Text(admin.Cut(400, c.Error)))
	case c.At.IsZero():
		return admin.None("The access log is being read.")
	default:
		return g.Group{
			g.If(c.First != "", h.P(g.Text(admin.Cut(600, c.First)))),
			admin.Figures(
				admin.Figure("Requests of crawlers", g.Text(admin.Count(c.Crawlers.Requests)), g.Textf("of %s in %s", admin.Count(c.Total.Requests), admin.Many(c.Days, "day", "days"))),
				admin.Figure("Sent to crawlers", g.Text(admin.Size(c.Crawlers.Bytes)), g.Text("of "+admin.Size(c.Total.Bytes))),
				admin.Figure("Saved by 304", g.Text(admin.Count(c.NotModified)), g.Text("requests answered without a body")),
				admin.Figure("Sent unchanged", g.Text(admin.Size(c.Unchanged.Bytes)), g.Text("again, at least, in "+admin.Many(c.Unchanged.Requests, "response", "responses")))),
			h.P(h.Class("soft"), g.Text("By the name that clients claim. Read "), admin.Ago(c.At), g.Text(".")),
			admin.Table("Crawlers, by the name that clients claim", []admin.Column{{Head: "Crawler"}, {Head: "Kind"}, {Head: "Requests", Numbers: true}, {Head: "Bytes", Numbers: true}, {Head: "Answered 304", Numbers: true},
				{Head: "Again unchanged", Numbers: true}}, c.Rows, func(r report.Crawler) []g.Node {
				return []g.Node{admin.Inside(60, r.Name), g.Text(string(r.Kind)), g.Text(admin.Count(r.Requests)), g.Text(admin.Size(r.Bytes)), g.Text(admin.Count(r.NotModified)),
					g.Text(admin.Count(r.Unchanged.Requests))}
			}),
			unlisted(c.Unlisted, ": see rdfgen report"),
		}
	}
}
