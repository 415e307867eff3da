package webreport

import (
	"math"

	"github.com/parleyweb/parley/internal/command"
)

// Prices of the transfer, in any currency; 0 is a price that nobody has given.
type prices struct{ Request, Gigabyte float64 }

func (p prices) check() error {
	for _, o := range []struct {
		name  string
		price float64
	}{{"request", p.Request}, {"gigabyte", p.Gigabyte}} {
		if !(o.price >= 0) || math.IsInf(o.price, 0) {
			return command.Misusef("--price-of-a-%s %v: want a price of 0 or more", o.name, o.price)
		}
	}
	return nil
}

// The figures of Castillo's thesis, in US$ of 2004. A server (6.4.1) pays 10 for 5 Gbit, which is that many views of pages of 40 KB with their
// pictures, and for three times as much as it needs; a view brings it 0.05 or more. A crawl of the Web costs a search engine (6.4.2) 1.5
// million.
const (
	thesisViews   = 625e6 / 40e3
	thesisCost    = 0.002
	thesisBenefit = 0.05
	thesisCrawl   = 1.5e6
	thesisMoney   = "in US$ of 2004, a view of a page cost a server 0.002 at most and brought it 0.05 or more, 25 times as much (6.4.1); a page cost a crawler 0.002 too, or 1.5 million for 750 million pages (6.4.2)"
)

// price adds the table of money to those of each collection, if there are prices.
func (v *view) price(p prices) {
	if p == (prices{}) {
		return
	}
	for _, ts := range []*tables{&v.tables, &v.others} {
		if *ts == nil {
			continue
		}
		t := table{Name: "money", Source: "C40, C41, Castillo 6.4", Columns: []string{"what", "requests", "bytes", "for_requests", "for_bytes", "sum", "of_a_page"}, Keys: 1}
		pages := ts.figure("pages")
		add := func(what string, requests, bytes float64) {
			r, b := float64(p.Request*requests), float64(p.Gigabyte*(bytes/1e9))
			t.Rows = append(t.Rows, []any{what, int64(requests), int64(bytes), rounded(r), rounded(b), rounded(r + b), rounded((r + b) / max(pages, 1))})
		}
		add("spent", ts.figure("requests for pages"), ts.figure("bytes received of pages"))
		saved := ts.table("saved")
		for i, row := range saved.Rows {
			add("saved: "+cellText(row[0]), saved.column("requests")[i], saved.column("bytes")[i])
		}
		*ts = append(*ts, t)
	}
}
