package main

import (
	"fmt"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/admin"
)

func showNeeds(v *crawlView) g.Node {
	var tasks g.Group
	if v.Paused != "" {
		tasks = append(tasks, h.Li(h.H3(g.Text("Paused")), h.P(g.Text(admin.Cut(600, v.Paused)+".")),
			admin.Do("resume", h.Input(h.Type("hidden"), h.Name("all"), h.Value("yes")), admin.Button("Resume all"))))
	}
	for _, d := range v.Doomed {
		tasks = append(tasks, h.Li(h.H3(admin.Inside(120, d.Origin)),
			h.P(g.Textf("Its manifest has dropped %s pages, most of them at once. They stay until it still lacks them a day later, or until you accept that.", admin.Count(d.Pages))),
			admin.Confirm("accept", fmt.Sprint(d.Pages, " ", d.Origin), "They were deleted on purpose", "Accept the deletions")))
	}
	var needs g.Group
	if ends := v.Status.Ends; ends != "" {
		needs = append(needs, h.P(h.Class("note"), g.Text("The crawl ends: "+admin.Cut(300, ends)+".")))
	}
	if tasks == nil {
		return append(needs, h.P(h.Class("well"), g.Text("Nothing needs a person.")))
	}
	needs = append(needs, h.Ul(h.Class("tasks"), tasks))
	if v.MoreDoomed > 0 {
		needs = append(needs, admin.Soft("The manifests of "+admin.Many(v.MoreDoomed, "further site has", "further sites have")+" dropped most of their pages: see crawler sites."))
	}
	return needs
}

func showCrawl(v *crawlView) g.Node {
	s, count := &v.Status, func(n int) g.Node { return g.Text(admin.Count(n)) }
	rate, over, since := "–", "", g.Text("ended")
	if v.Over > 0 {
		rate, over = fmt.Sprintf("%.1f", v.PerMinute), fmt.Sprintf("over %s; ", v.Over.Round(time.Second))
	}
	if s.Running {
		since = admin.Ago(s.Began)
	}
	return admin.Figures(
		admin.Figure("Pages stored", count(v.Held), g.Textf("of %s known; %s gone", admin.Count(v.Known), admin.Count(v.Gone))),
		admin.Figure("Due now", count(v.Ready), g.Textf("%s wait, as similar pages led to nothing new", admin.Count(s.Waiting))),
		admin.Figure("Sites", count(v.Of), g.Textf("%s in flight, %s followed", admin.Count(s.InFlight), admin.Count(s.Followed))),
		admin.Figure("Requests a minute", g.Text(rate), g.Textf("%s%s since the start", over, admin.Count(s.Requests))),
		admin.Figure("Received", g.Text(admin.Size(s.Came())), g.Textf("%s pages new or changed", admin.Count(s.Changed))),
		admin.Figure("Answers", g.Text(admin.Count(s.Fetched)), g.Textf("%s unchanged, %s missing, %s refused, %s faults",
			admin.Count(s.Unchanged), admin.Count(s.Missing), admin.Count(s.Refused), admin.Count(s.Faults))),
		admin.Figure("Running since", since, g.Textf("%s tasks under way", admin.Count(s.Busy))))
}

// unmeasured stands in the place of a figure.
func unmeasured() g.Node { return g.Text("–") }

func showFreshness(v *crawlView) g.Node {
	var now, later g.Node
	if r := v.Status.Revisits; r != nil {
		var unknown []g.Node
		if r.Unknown > 0 {
			unknown = append(unknown, g.Textf("%s pages of sites without an answer do not count", admin.Count(r.Unknown)))
		}
		now = admin.Figure("Believed current", g.Text(admin.Percent(r.Fresh)), g.Text("of the stored pages, by importance, at the last plan"))
		later = g.Group{
			admin.Figure("Budget", g.Textf("%.1f", r.Budget), g.Textf("a day for revisits; %.1f planned ", r.Requests), admin.Ago(r.Planned)),
			admin.Figure("Expected in the long run", g.Text(admin.Percent(r.Freshness)), unknown...)}
	}
	const measured = "Measured: unchanged when revisited"
	if v.Visits == 0 {
		return admin.Figures(now, admin.Figure(measured, unmeasured(), g.Text("no visit has shown it yet")), later)
	}
	return g.Group{
		admin.Figures(now, admin.Figure(measured, g.Text(admin.Percent(v.Found)), g.Textf("%s expected, in %s visits", admin.Percent(v.Expected), admin.Count(v.Visits))), later),
		admin.Soft("Pages by the estimate that they were current, and what visits and manifests showed."),
		admin.Table("", []admin.Column{{Head: "Estimate"}, {Head: "Pages", Numbers: true}, {Head: "Expected", Numbers: true}, {Head: "Found", Numbers: true}}, deciles(v),
			func(i int) []g.Node {
				d := v.Status.Truth[i]
				return []g.Node{g.Textf("%d %% and more", 10*i), g.Text(admin.Count(d.Pages)), g.Text(admin.Percent(d.Expected)), g.Text(admin.Percent(d.Found))}
			}),
	}
}

// deciles returns the tenths of the estimate that have pages.
func deciles(v *crawlView) (list []int) {
	for i, d := range v.Status.Truth {
		if d.Pages > 0 {
			list = append(list, i)
		}
	}
	return list
}

func showSites(v *crawlView) g.Node {
	if len(v.Sites) == 0 {
		return admin.None("No site is known yet.")
	}
	var unlisted g.Node
	if v.Unlisted > 0 {
		unlisted = admin.Soft(admin.Count(v.Unlisted) + " more are not listed: see crawler sites.")
	}
	return g.Group{
		admin.Soft("Those with the most requests first."),
		admin.Table("Table of sites", []admin.Column{{Head: "Site"}, {Head: "Requests", Numbers: true}, {Head: "Received", Numbers: true}, {Head: "Stored", Numbers: true}, {Head: "Due", Numbers: true},
			{Head: "Current", Label: "Current when checked", Numbers: true}, {Head: "Refused", Label: "Refused or failing", Numbers: true}, {Head: "Told by"},
			{Head: "Right", Label: "Announcements that were right"}, {Head: "Last read", Label: "Last source read"}}, v.Sites, siteLine.cells),
		admin.Soft("Current: the stored pages that visits and manifests have found unchanged since the start, and how many the estimates had expected. Refused: pages that the site refuses, or that fail. Right: the announced changes that a visit has confirmed. Last read: when robots.txt, a manifest, a sitemap or a feed last gave an answer."),
		unlisted,
	}
}

func (l siteLine) cells() []g.Node {
	site, current, right := g.Group{admin.Inside(120, l.Origin)}, unmeasured(), unmeasured()
	small := func(nodes ...g.Node) { site = append(site, h.Br(), h.Small(nodes...)) }
	bad := func(text string) g.Node { return h.Span(h.Class("bad"), g.Text(text)) }
	if l.Stopped {
		small(g.Text("paused"))
	} else if l.QuietLong {
		small(bad("silent"), g.Text(", next request "+admin.At(l.Quiet)))
	}
	if l.Fault != "" {
		small(bad("fails"), g.Text(": "+admin.Cut(160, l.Fault)))
	}
	if l.Checked > 0 {
		current = h.Span(g.Textf("%s of %s", admin.Percent(l.Fresh), admin.Count(l.Checked)), h.Br(), h.Small(g.Textf("%s expected", admin.Percent(l.Believed))))
	}
	if l.Judged > 0 {
		right = g.Textf("%s of %s", admin.Percent(l.Honest), admin.Count(l.Judged))
	}
	return []g.Node{site, g.Text(admin.Count(l.Requests)), g.Text(admin.Size(l.Bytes)), g.Textf("%s of %s", admin.Count(l.Held), admin.Count(l.Pages)), g.Text(admin.Count(l.Ready)), current,
		g.Text(admin.Count(l.Errors)), g.Text(admin.Cut(40, l.ToldBy)), right, admin.Ago(l.Answered)}
}

func showSources(v *crawlView) g.Node {
	if len(v.Received) == 0 {
		return admin.None("No source has announced a change since the start.")
	}
	return g.Group{
		admin.Soft("Announced changes since the start. Ignored are those that were not believed, not admitted, or of another origin."),
		admin.Table("", []admin.Column{{Head: "Source"}, {Head: "Changes", Numbers: true}, {Head: "Applied at once", Numbers: true}, {Head: "To be fetched", Numbers: true}, {Head: "Ignored", Numbers: true}},
			v.Received, func(r receivedLine) []g.Node {
				return []g.Node{g.Text(string(r.By)), g.Text(admin.Count(r.Received)), g.Text(admin.Count(r.Processed)), g.Text(admin.Count(r.Enqueued)), g.Text(admin.Count(r.Ignored))}
			}),
	}
}

func showErrors(v *crawlView) g.Node {
	if len(v.Causes) == 0 {
		return admin.None("All sites respond.")
	}
	return g.Group{
		admin.Soft("Sites by the cause of their last fault."),
		admin.Table("", []admin.Column{{Head: "Cause"}, {Head: "Sites", Numbers: true}, {Head: "Such as"}, {Head: "Last"}}, v.Causes, func(c cause) []g.Node {
			return []g.Node{admin.Inside(160, c.Text), g.Text(admin.Count(c.Sites)), g.El("bdi", h.Class("url"), g.Text(admin.Cut(120, c.Example))), admin.Ago(c.Last)}
		}),
	}
}

// whyForm asks for a page to explain.
func whyForm() g.Node {
	return h.Form(h.Method("get"), h.Action("/why"), h.Label(h.For("why-url"), g.Text("Why is a page fetched, or not?")),
		h.Input(h.ID("why-url"), h.Name("url"), h.Type("url"), g.Attr("size", "40"), h.Placeholder("https://"), h.Required()), admin.Button("Explain"))
}

func showSteer(v *crawlView) g.Node {
	ofSite := func(task, verb string) g.Node {
		return admin.Do(task, h.Label(h.For(task+"-site"), g.Text(verb+" a site")), h.Input(h.ID(task+"-site"), h.Name("site"), g.Attr("size", "28"), h.Placeholder("https://www.example.org")),
			h.Label(h.Input(h.Type("checkbox"), h.Name("all"), h.Value("yes")), g.Text("all")), admin.Button(verb))
	}
	input := func(name, label, value, example string) g.Node {
		return h.Div(h.Label(h.For(name), g.Text(label)), h.Input(h.ID(name), h.Name(name), h.Value(value), g.If(example != "", h.Placeholder(example))))
	}
	list := func(name, label string, values []string) g.Node {
		return h.Div(h.Label(h.For(name), g.Text(label)), h.Textarea(h.ID(name), h.Name(name), h.Rows("2"), h.Cols("40"), g.Text(strings.Join(values, "\n"))))
	}
	titled := func(name, title, about, button string, fields ...g.Node) g.Node {
		return g.Group{h.H3(h.ID(name+"-title"), g.Text(title)), admin.Soft(about),
			admin.Do(name, h.Aria("labelledby", name+"-title"), h.Div(h.Class("facts"), g.Group(fields), h.Div(h.Span(), admin.Button(button))))}
	}
	r, s := &v.Steering.Rate, &v.Steering.Scope
	return g.Group{
		admin.Do("add", h.Label(h.For("add"), g.Text("Fetch pages next, before all others")),
			h.Textarea(h.ID("add"), h.Name("url"), h.Rows("1"), h.Cols("40"), h.Placeholder("https://"), h.Required()), admin.Button("Add")),
		ofSite("pause", "Pause"),
		ofSite("resume", "Resume"),
		titled("rate", "Rate", "An empty field is as on the command line.", "Set the rate",
			input("budget", "Requests a day for revisits", r.Budget, ""),
			input("wait", "Wait after each request", r.Wait, "15s"),
			input("wait-big", "Wait, at sites of more than 100 pages", r.WaitBig, "5s"),
			input("max-rate", "Requests a second, if a site states more", r.MaxRate, ""),
			input("per-address", "Requests a second to one address", r.PerAddress, "2/s")),
		titled("scope", "Scope", "One value a line. An empty field is as on the command line, and the word none is the empty list.", "Set the scope",
			list("domain", "Only hosts equal to or below", s.Domain),
			list("accept", "Only URLs that match", s.Accept),
			list("reject", "No URLs that match", s.Reject)),
	}
}

// explanation shows why a page is fetched, or not.
func explanation(y *crawl.Why) g.Node {
	text := "This URL is unknown."
	switch {
	case y.Known && y.Next.IsZero():
		text = "It is " + y.State + "; no further fetch is planned."
	case y.Known:
		text = "It is " + y.State + "; the next fetch is from " + admin.At(y.Next) + " on."
	}
	list := func(title string, list []string) g.Node {
		if len(list) == 0 {
			return nil
		}
		return g.Group{h.H2(g.Text(title)), h.Ul(g.Map(list, func(s string) g.Node { return h.Li(admin.Inside(600, s)) }))}
	}
	return g.Group{h.P(h.Class("url"), admin.Inside(2000, y.URL)), h.P(g.Text(text)), list("Rules", y.Rules), list("Estimate", y.Beliefs), list("Signals", y.Signals)}
}
