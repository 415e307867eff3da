package crawl_test

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/engine/fresh"
)

// A program that wants a crawl needs the options and nothing else. Pages of the batch that is being fetched count in the queue, from which the remaining time is estimated.
func TestQueueCountsTheBatch(t *testing.T) {
	const pages = 20
	offered, links := hub(pages)
	w := newWeb(t, offered)
	o := ownSite(t, w.URL+"/")
	o.Scope.TrapShare = 1 // the names of the pages are alike
	c := openOptions(t, o)
	var queues []int // at the requests for the pages
	w.answer(func(_ http.ResponseWriter, req *http.Request) bool {
		if slices.Contains(links, req.URL.Path) { // one at a time: a crawler is polite
			queues = append(queues, c.Status().Queue)
		}
		return false
	})
	finish(t, c)
	w.Close()
	if s := c.Status(); len(queues) != pages || s.Fetched != pages+1 || s.Queue != 0 {
		t.Errorf("%d of %d pages requested, %d fetched, %d in the queue afterwards", len(queues), pages, s.Fetched, s.Queue)
	}
	for i, n := range queues {
		if n < pages-i || n > pages+1 {
			t.Errorf("%d in the queue, with %d pages left", n, pages-i)
		}
	}
}

// An error names the field, what it is and what it should be, and nothing is stored.
func TestOptionErrorsNameFields(t *testing.T) {
	for want, set := range map[string]func(o *crawl.Options){
		"Batch 0: want 1 or more":                       func(o *crawl.Options) { o.Order.Batch = 0 },
		"MaxDepthDynamic -1: want 1 or more":            func(o *crawl.Options) { o.Scope.MaxDepthDynamic = -1 },
		"TrapShare 2: want a share between 0 and 1":     func(o *crawl.Options) { o.Scope.TrapShare = 2 },
		"Threshold 1: want a number between 0 and 1":    func(o *crawl.Options) { o.Revisits.Threshold = 1 },
		"Store drawer: want warc, mirror, both or none": func(o *crawl.Options) { o.Collection.Store = "drawer" },
		"Costs gold: want requests or bytes":            func(o *crawl.Options) { o.Revisits.Costs = "gold" },
		"Policy hope: want priced, uniform, proportional, thesis, or thesis for a purpose, such as thesis:news": func(o *crawl.Options) { o.Revisits.Policy = "hope" },
		"As diff: want auto, meta, delta, page, batch or site":                                                  func(o *crawl.Options) { o.Sources.As = "diff" },
		"BlockedIP x: want an address such as 192.0.2.1 or a prefix such as 192.0.2.0/24":                       func(o *crawl.Options) { o.Fetch.BlockedIP = []string{"x"} },
		"Strategy opic needs links: remove NoLinks and NoParse":                                                 func(o *crawl.Options) { o.Order.Strategy, o.Sources.NoParse = "opic", true },
		"StopValue needs Policy thesis: only there the profit of a page is between 0 and 1":                     func(o *crawl.Options) { o.Revisits.StopValue = .5 },
		"127.0.0.1:9: want a URL such as https://www.example.org/":                                              func(o *crawl.Options) { o.Start = []string{"127.0.0.1:9"} },
		"127.0.0.1 is not on the public Internet: add AllowPrivate if the machine is yours":                     func(o *crawl.Options) { o.Fetch.AllowPrivate = false },
		"a.example is another machine: add Contact MAIL or URL, so that its operators can reach you":            func(o *crawl.Options) { o.Start = []string{"http://a.example/"} },
		"Wait 0s: a.example may belong to somebody else: wait at least 1s":                                      func(o *crawl.Options) { o.Start, o.Fetch.Contact = []string{"http://a.example/"}, "me@b.example" },
		`http://127.0.0.1:9 page: "page" after a URL: want depth=N, N links from a start page at most, or pages=N, N URLs at most`: func(o *crawl.Options) {
			o.Start = []string{"http://127.0.0.1:9 page"}
		},
		"Into is required": func(o *crawl.Options) { // before a history is read, which may take minutes
			o.Collection.Into, o.Order.Score, o.Order.History = "", "history=1", "missing.txt"
		},
		"Score depth=1,pagerank=1 needs links: remove NoLinks and NoParse": func(o *crawl.Options) {
			o.Order.Score, o.Collection.NoLinks = "depth=1,pagerank=1", true
		},
		"RankEvery 5 computes nothing that is used: choose Strategy batch-pagerank or partial-pagerank, or add pagerank=1, weighted=1, hub=1, authority=1 or siterank=1 to Score": func(o *crawl.Options) {
			o.Order.Strategy, o.Order.RankEvery = "opic", 5
		},
	} {
		o := ownSite(t, "http://127.0.0.1:9/")
		set(o)
		c, err := o.Open(t.Context())
		if wrong := new(crawl.OptionError); !errors.As(err, &wrong) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if c != nil {
			c.Collection.Close()
		}
		if _, err := os.Stat(o.Collection.Into); err == nil {
			t.Errorf("%s: a collection was made", want)
		}
	}
}

// Addresses that are not public are known in all ways to write them.
func TestSpecialStartAddresses(t *testing.T) {
	for _, host := range []string{"100.64.0.1", "0.0.0.0", "10.0.0.1", "[fd00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[::ffff:127.0.0.1]", "a.localhost"} {
		o := ownSite(t, "http://"+host+"/")
		o.Fetch.AllowPrivate = false
		if err := o.CheckURL(o.Start[0]); err == nil || !strings.HasSuffix(err.Error(), " is not on the public Internet: add AllowPrivate if the machine is yours") {
			t.Errorf("%s: %v", host, err)
		}
	}
	for host, ok := range map[string]bool{"[::ffff:127.0.0.1]": true, "[::ffff:10.0.0.1]": true, "100.64.0.1": false, "[::ffff:8.8.8.8]": false} {
		o := ownSite(t, "http://"+host+"/") // requests without a wait are for one's own machines
		o.Fetch.Contact = "me@b.example"
		if err := o.CheckURL(o.Start[0]); (err == nil) != ok {
			t.Errorf("%s without a wait: %v", host, err)
		}
	}
}

func TestParsePerAddress(t *testing.T) {
	for _, c := range []struct {
		text  string
		rate  float64
		conns int
		ok    bool
	}{
		{"", 0, 0, true},
		{"2", 2, 0, true},
		{"5/s", 5, 0, true},
		{"0.5/s,8", 0.5, 8, true},
		{" 10/s , 1", 10, 1, true},
		{"0/s", 0, 0, false},
		{"-1", 0, 0, false},
		{"NaN", 0, 0, false},
		{"5/m", 0, 0, false},
		{"5/s,0", 0, 0, false},
		{"5/s,", 0, 0, false},
		{"true", 0, 0, false},
	} {
		o := crawl.DefaultOptions()
		o.Fetch.PerAddress = c.text
		h, err := o.Harvester()
		if (err == nil) != c.ok || err == nil && (h.Options.AddressRate != c.rate || h.Options.AddressConns != c.conns) {
			t.Errorf("PerAddress %q: %v a second, %d connections, %v", c.text, h.Options.AddressRate, h.Options.AddressConns, err)
		}
	}
}

// The thesis's policy is available for each of its purposes (V08).
func TestThesisPolicyPresets(t *testing.T) {
	for name, want := range map[string]fresh.Thesis{"thesis": {}, "thesis:general": {}, "thesis:news": {Alpha: .5, Gamma: 2}, "thesis:mirror": {Alpha: -1, Gamma: 2}} {
		o := ownSite(t, "http://127.0.0.1:9/")
		o.Revisits.Policy = name
		if got := openOptions(t, o).Policy.(fresh.Thesis); got.Alpha != want.Alpha || got.Beta != want.Beta || got.Gamma != want.Gamma {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"thesis:hope", "priced:news", "hope"} {
		o := ownSite(t, "http://127.0.0.1:9/")
		o.Revisits.Policy = name
		if c, err := o.Open(t.Context()); err == nil {
			t.Errorf("%s: %+v", name, crawl.EngineOf(c).Policy)
			c.Collection.Close()
		}
	}
}
