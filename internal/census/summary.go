package census

// summary is the table of single numbers.
func (t *taking) summary() Table {
	s := table("summary", "R01, R03, R04, R12-R18, F03, F04, V05, Castillo chapters 2 and 8", 1, "figure", "value")
	b, sum := t.book, &t.book.count.total
	n := int64(len(t.sites.counts))
	s.row("pages", sum.pages)
	averages(&s, sum.pages-sum.dynamic, sum.dynamic, sum.pages-sum.duplicates, sum.duplicates, n)

	var known int64
	for _, count := range b.count.states {
		known += count
	}
	s.row("known URLs", known)
	if !sum.newest.IsZero() {
		s.row("newest visit", sum.newest.UTC().Format("2006-01-02T15:04:05Z"))
	}
	s.row("bytes", sum.bytes)
	var asked, received int64
	for site := range t.col.Sites() {
		asked += site.Requests
		received += site.Bytes
	}
	s.row("requests for pages", asked)
	s.row("bytes received of pages", received)
	s.row("mean bytes of a page", per(sum.bytes, sum.pages))
	s.row("truncated pages", sum.cut)

	var answers, ok, missing int64
	for code, count := range b.count.status {
		if code != 0 {
			answers += count
			switch t.opts.classOfStatus(code) {
			case "ok":
				ok += count
			case "not found":
				missing += count
			}
		}
	}
	s.row("share of answers that are ok", per(ok, answers))
	s.row("share of answers that are not found", per(missing, answers))

	s.row("pages with a credible date", sum.dated)
	s.row("share of pages at most a year old", per(b.count.years[0], sum.dated))
	s.row("mean age of a page, days", per(sum.days, sum.dated))
	var dated, recent, recent2, deep, single int64
	for _, x := range t.sites.counts {
		if x.pages == 1 {
			single++
		}
		deep += int64(x.depth)
		if x.dated > 0 {
			dated++
			if x.oldest < year {
				recent++
			}
			if x.oldest < 2*year {
				recent2++
			}
		}
	}
	s.row("share of sites with a credible date", per(dated, n))
	s.row("share of dated sites whose oldest page is at most a year old", per(recent, dated))
	s.row("share of dated sites whose oldest page is at most two years old", per(recent2, dated))
	s.row("share of sites with one page", per(single, n))
	s.row("mean bytes of a site", per(sum.bytes, n))
	s.row("mean of the greatest depth of a site", per(deep, n))
	s.row("share of the pages on the tenth of the sites with most", topShare(t.sites.each(pagesOf)))
	s.row("share of the bytes on the tenth of the sites with most", topShare(t.sites.each(bytesOf)))

	var links, without int64
	for page := range t.web.out {
		links += int64(t.web.out[page])
		if t.web.out[page] == 0 {
			without++
		}
	}
	s.row("links", links)
	s.row("links between pages", int64(len(t.web.To)))
	s.row("links between sites", int64(len(t.siteGraph.To)))
	s.row("mean links of a page", per(links, sum.pages))
	s.row("pages without links", without)
	s.row("pages whose links or references are damaged", t.web.damaged+t.references.damaged)

	t.scoreFigures(&s)

	x := &t.times
	s.row("pages visited twice or more", len(x.rates))
	s.row("mean changes of such a page", per(x.changed, len(x.rates)))
	s.row("mean interval between changes, days", per(x.spans, x.changed))
	s.row("mean changes a day of such a page", mean(x.rates))
	s.row("half-life of change, days", x.halfLife())
	s.row("pages that are gone", len(x.lives))
	s.row("mean lifespan of a page that is gone, days", mean(x.lives))
	s.row("median lifespan of a page that is gone, days", median(x.lives))
	return s
}

// averages are the numbers of Castillo's Table 8.1, in which the averages of a site follow from the sums (E25).
func averages(s *Table, static, dynamic, unique, duplicates, sites int64) {
	pages := static + dynamic
	s.row("sites", sites)
	s.row("static pages", static)
	s.row("dynamic pages", dynamic)
	s.row("share of dynamic pages", per(dynamic, pages))
	s.row("unique pages", unique)
	s.row("duplicates", duplicates)
	s.row("share of duplicates", per(duplicates, pages))
	s.row("pages of a site", per(pages, sites))
	s.row("static pages of a site", per(static, sites))
	s.row("dynamic pages of a site", per(dynamic, sites))
}
