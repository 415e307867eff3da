package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/internal/engine/steer"
)

// How much the page shows at most, and how often it is made: that iterates over all sites.
const (
	crawlPageEvery = 2 * time.Second
	maxSiteRows    = 50
	maxDoomedRows  = 50
	maxCauseRows   = 20
	maxCauses      = 1000 // that are told apart
	rateOver       = time.Minute
)

// A crawlPage is the page about a running crawler, for those who run it. Its forms do what the local API does.
type crawlPage struct {
	api     *localAPI
	samples []sample // of the last rateOver; only read uses them, which is never called twice at a time
}

// A sample is how many requests had been made at a time.
type sample struct {
	at       time.Time
	requests int64
}

// handler serves the page, and below /api/ the local API. Event streams end when done is closed.
func (p *crawlPage) handler(title string, done <-chan struct{}) http.Handler {
	page := &admin.Page{Title: title, Subtitle: "Parley crawler", Read: p.sections, Every: crawlPageEvery, Done: done,
		Sections: []admin.Section{{ID: "needs", Title: "Needs a person", Alert: true}, {ID: "crawl", Title: "The crawl"}, {ID: "freshness", Title: "Freshness"},
			{ID: "sites", Title: "Sites"}, {ID: "sources", Title: "Sources"}, {ID: "errors", Title: "Errors"}, {ID: "why", Title: "Why"}, {ID: "steer", Title: "Steer"}}}
	m := http.NewServeMux()
	m.Handle("GET /{$}", page)
	m.HandleFunc("GET /events", page.Events)
	m.HandleFunc("GET /why", p.why)
	m.HandleFunc("POST /do/{task}", func(w http.ResponseWriter, r *http.Request) {
		p.do(w, r)
		page.Renew()
	})
	m.Handle("/api/", http.StripPrefix("/api", p.api.remote()))
	return m
}

// A crawlView is what the page shows.
type crawlView struct {
	Status                       crawl.Status
	Known, Held, Gone, Ready, Of int
	PerMinute                    float64
	Over                         time.Duration // of PerMinute; 0: not known yet

	Visits          int     // revisits that have judged the estimates
	Expected, Found float64 // shares of them that were expected and found to be unchanged

	Sites      []siteLine
	Unlisted   int
	Paused     string // which sites; empty: none
	Doomed     []doomedLine
	MoreDoomed int // sites that are not in Doomed
	Causes     []cause
	Received   []receivedLine

	Steering steer.Steering
}

// A siteLine is a site with its sources.
type siteLine struct {
	collection.Site
	ToldBy    string
	Honest    float64 // below 0: nothing was judged
	Judged    int
	Answered  time.Time // when a source last gave an answer, other than a server error
	Stopped   bool      // paused by a person
	QuietLong bool      // no request before Quiet, since it does not answer

	Checked         int     // pages that visits and manifests have compared with the estimates since the start
	Believed, Fresh float64 // shares of them that were expected to be unchanged, and that were
}

// A doomedLine is a site whose manifest has dropped most of its pages.
type doomedLine struct {
	Origin string
	Pages  int // whose deletion is held back
}

// A cause is the end of a message, which names what happened, and the sites whose last fault it is.
type cause struct {
	Text, Example string
	Sites         int
	Last          time.Time
}

type receivedLine struct {
	By collection.Signal
	collection.Reception
}

func (p *crawlPage) sections(context.Context) ([]g.Node, error) {
	v, err := p.read()
	if err != nil {
		return nil, err
	}
	return []g.Node{showNeeds(v), showCrawl(v), showFreshness(v), showSites(v), showSources(v), showErrors(v), whyForm(), showSteer(v)}, nil
}

// read reads the present state.
func (p *crawlPage) read() (*crawlView, error) {
	now := time.Now()
	v := &crawlView{Status: p.api.crawler.Status(), Known: p.api.col.Len()}
	var err error
	if v.Steering, err = collection.Steering(p.api.col); err != nil {
		return nil, err
	}
	if s := &v.Steering; s.All || len(s.Sites) > 0 {
		v.Paused = pausedText(s)
	}
	v.PerMinute, v.Over = p.rate(now, v.Status.Requests)
	for _, d := range v.Status.Truth {
		v.Visits += d.Pages
		v.Expected += float64(d.Pages) * d.Expected
		v.Found += float64(d.Pages) * d.Found
	}
	if v.Visits > 0 {
		v.Expected, v.Found = v.Expected/float64(v.Visits), v.Found/float64(v.Visits)
	}
	if err := p.sitesOf(v, now); err != nil {
		return nil, err
	}
	for _, by := range slices.Sorted(maps.Keys(v.Status.Received)) {
		v.Received = append(v.Received, receivedLine{by, v.Status.Received[by]})
	}
	return v, nil
}

// rate returns how many requests a minute were made lately, and over which time.
func (p *crawlPage) rate(now time.Time, requests int64) (perMinute float64, over time.Duration) {
	if n := len(p.samples); n == 0 || now.Sub(p.samples[n-1].at) >= time.Second { // forms make the page anew at any time
		p.samples = append(p.samples, sample{now, requests})
	}
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateOver {
		p.samples = p.samples[1:]
	}
	first := p.samples[0]
	if over = now.Sub(first.at); over > 0 {
		perMinute = float64(requests-first.requests) / over.Minutes()
	}
	return perMinute, over
}

// sitesOf sums up all sites, and reads more of those with the most requests.
func (p *crawlPage) sitesOf(v *crawlView, now time.Time) error {
	var top []collection.Site
	causes := map[string]*cause{}
	order := func(a, b collection.Site) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ID, b.ID))
	}
	for s := range p.api.col.Sites() {
		v.Of++
		v.Held, v.Gone, v.Ready = v.Held+s.Held, v.Gone+s.Gone, v.Ready+s.Ready
		if s.Fault != "" {
			countFault(causes, &s)
		}
		if s.Doomed > 0 {
			v.Doomed = append(v.Doomed, doomedLine{s.Origin, s.Doomed})
		}
		if top = append(top, s); len(top) >= 4*maxSiteRows {
			slices.SortFunc(top, order)
			top = top[:maxSiteRows]
		}
	}
	slices.SortFunc(v.Doomed, func(a, b doomedLine) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Origin, b.Origin))
	})
	v.MoreDoomed = max(0, len(v.Doomed)-maxDoomedRows)
	v.Doomed = v.Doomed[:len(v.Doomed)-v.MoreDoomed]
	slices.SortFunc(top, order)
	top = top[:min(len(top), maxSiteRows)]
	v.Unlisted = v.Of - len(top)
	paused := v.Steering.Pauses()
	for _, s := range top {
		l, err := p.lineOf(s)
		if err != nil {
			return err
		}
		l.Stopped, l.QuietLong = paused(s.Origin), s.Quiet.After(now)
		if v.Status.TruthOf != nil {
			truth := v.Status.TruthOf(s.ID)
			l.Checked, l.Believed, l.Fresh = truth.Pages, truth.Expected, truth.Found
		}
		v.Sites = append(v.Sites, l)
	}
	for _, c := range causes {
		v.Causes = append(v.Causes, *c)
	}
	slices.SortFunc(v.Causes, func(a, b cause) int { return cmp.Or(cmp.Compare(b.Sites, a.Sites), cmp.Compare(a.Text, b.Text)) })
	v.Causes = v.Causes[:min(len(v.Causes), maxCauseRows)]
	return nil
}

// lineOf reads the sources of a site.
func (p *crawlPage) lineOf(s collection.Site) (siteLine, error) {
	l := siteLine{Site: s}
	l.Honest, l.Judged = honesty(&s)
	sources, err := p.api.col.Sources(s.ID)
	l.ToldBy = toldBy(sources)
	for _, src := range sources {
		if src.Status > 0 && src.Status < http.StatusInternalServerError && src.Polled.After(l.Answered) {
			l.Answered = src.Polled
		}
	}
	return l, err
}

// countFault adds the fault of a site to its cause: what stands before it is mostly an address.
func countFault(causes map[string]*cause, s *collection.Site) {
	text := s.Fault
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	if causes[text] == nil && len(causes) >= maxCauses {
		text = "other causes"
	}
	c := causes[text]
	if c == nil {
		c = &cause{Text: text, Example: s.Origin}
		causes[text] = c
	}
	c.Sites++
	if s.FaultAt.After(c.Last) {
		c.Last, c.Example = s.FaultAt, s.Origin
	}
}

// why answers the search box.
func (p *crawlPage) why(w http.ResponseWriter, r *http.Request) {
	y, err := p.api.crawler.Why(strings.TrimSpace(r.FormValue("url")))
	if err != nil {
		admin.Reply(w, r, http.StatusBadRequest, "No explanation", err.Error())
		return
	}
	admin.Show(w, "Why", explanation(&y))
}

// maxForm bounds a form, in bytes.
const maxForm = 4 << 20

// do does what a form of the page says.
func (p *crawlPage) do(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	text := ""
	if err == nil {
		text, err = p.task(r)
	}
	if err != nil {
		admin.Reply(w, r, http.StatusConflict, "Not done", misuse(err).Error())
		return
	}
	admin.Reply(w, r, http.StatusOK, "Done", text)
}

// task does a task, and returns its result for people.
func (p *crawlPage) task(r *http.Request) (string, error) {
	words, field := strings.Fields(r.PostFormValue("site")), r.PostFormValue
	switch task := r.PathValue("task"); task {
	case "add":
		verdicts, err := p.api.crawler.Add(r.Context(), strings.Fields(field("url")))
		if err != nil {
			return "", err
		}
		said, refused := fmt.Sprintf("Fetched next: %d.", len(verdicts)), 0
		for i, v := range verdicts {
			if !v.OK {
				refused++
				said = fmt.Sprintf("Not fetched: %d of %d; the last, %s, because of: %s", refused, len(verdicts), strings.Fields(field("url"))[i], v.Rule)
			}
		}
		return said, nil
	case "accept":
		if field("sure") == "" {
			return "", errors.New("nothing was done: check the box before the button, to confirm that this is intended")
		}
		number, origin, _ := strings.Cut(field("seen"), " ")
		site, ok := p.api.col.Site(origin)
		if !ok {
			return "", fmt.Errorf("accept: unknown site %.200s", origin)
		}
		if seen, err := strconv.Atoi(number); err != nil || site.Doomed > seen {
			return "", fmt.Errorf("nothing was done: it is about %d pages now, and the page showed %d: look again", site.Doomed, seen)
		}
		n, err := p.api.crawler.Accept(origin)
		return fmt.Sprintf("%d pages of %s are now gone.", n, origin), err
	case "pause", "resume":
		if field("all") == "" && len(words) == 0 {
			return "", fmt.Errorf("%s: name a site, or check the box for all", task)
		} else if field("all") != "" {
			words = []string{steer.All}
		}
		change := (*steer.Steering).Pause
		if task == "resume" {
			change = (*steer.Steering).Resume
		}
		s, err := steerRunning(p.api, words, change)
		said := pausedText(&s.Steering) + "."
		if len(s.Unknown) > 0 {
			said += " " + unknownText(s.Unknown) + "."
		}
		return said, err
	case "rate":
		or := func(name string) string { return cmp.Or(strings.TrimSpace(field(name)), steer.Default) }
		s, err := steerRunning(p.api, steer.Rate{Budget: or("budget"), Wait: or("wait"), WaitBig: or("wait-big"), MaxRate: or("max-rate"), PerAddress: or("per-address")},
			(*steer.Steering).SetRate)
		return "Set: " + cmp.Or(rateText(&s.Rate), "nothing; the options of the command line are in force") + ".", err
	case "scope":
		or := func(name string) (list []string) {
			for line := range strings.Lines(field(name)) {
				if line = strings.TrimSpace(line); line != "" {
					list = append(list, line)
				}
			}
			if list == nil {
				list = []string{steer.Default}
			}
			return list
		}
		s, err := steerRunning(p.api, steer.Scope{Domain: or("domain"), Accept: or("accept"), Reject: or("reject")}, (*steer.Steering).SetScope)
		return "Set: " + cmp.Or(scopeText(&s.Scope), "nothing; the options of the command line are in force") + ".", err
	default:
		return "", fmt.Errorf("%.80q is no task of this page", task)
	}
}
