package webreport

// A section is a figure of the report: what its tables show in sentences, in a drawing, and as numbers.
type section struct {
	Title  string
	says   saying
	draw   drawing // nil: none
	tables []string
	Thesis string // what Castillo's thesis found, in 2004
	*onPage
}

// onPage is what a section has once there is a view to show.
type onPage struct {
	view    *view
	Drawing string // of the first table
	Tables  []shownTable
}

// A chapter is one of the reports of the thesis (8.1), or one more.
type chapter struct {
	Title string
	List  []section
}

// allChapters are those of a report with all tables.
func allChapters() []chapter {
	one := func(name string) []string { return []string{name} }
	return []chapter{
		{"Pages", []section{
			{"The collection", figures("No page is stored.",
				"{page|pages} of {site|sites}, {pages of a site} a site; dynamic: {%share of dynamic pages}; with the same text as an earlier one: {%share of duplicates}.",
				"The index is worth as much as {current page with the mean Pagerank|value of the index: the sum of Pagerank, mean 1, times freshness}, and its least valuable page as much as {least value of a page}."), nil, one("summary"), "3,313,060 pages of 49,535 sites in .cl, 66.88 a site; 33.85 % were dynamic, 6.12 % duplicates (table 8.1)", nil},
			{"URLs by state", shares("states", "state", "pages", "known URL", "are "), bars("states", "state", "pages"), one("states"), "", nil},
			{"Last answers", shares("status", "class", "pages", "URL", "answer "), bars("status", "class", "pages"), one("status"),
				"75 to 85 % were OK, and over 9 % of the links broken (8.3.1)", nil},
			{"Media types", shares("types", "type", "pages", "page", "are "), bars("types", "type", "pages"), one("types"), "", nil},
			{"Data for programs", rows("data", above("pages", 0), "No page of the sample has data for programs.", "With {kind}: {page|pages} of the sample, {%share} of its pages of HTML."), nil, one("data"),
				"over 30,000 links to files of XML (8.3.7)", nil},
			{"Lengths of pages", all(classes("lengths", "pages", "page", "byte"), laws("bytes of a page")), histograms("lengths", "pages", "byte", "pages", "bytes of a page"),
				one("lengths"), "a power law with exponent -3.54; fewer pages than by this law below 12 KB, and more at the limit of 300 KB (8.3.2)", nil},
			{"Ages of pages", all(figures("No page has a credible date of modification.",
				"With a credible date of modification: {page|pages with a credible date}, on {%share of sites with a credible date} of the sites; younger than a year at the last visit: {%share of pages at most a year old} of these."),
				laws("age of a page in months")), histograms("ages_months", "pages", "month", "pages", "age of a page in months"), []string{"ages_months", "ages_years"},
				"83 % of the sites gave valid dates, over 60 % of the pages were younger than a year, and ages fell exponentially (8.3.3)", nil},
			{"Depths", all(peak("depths", "static", "static page", "are at"), peak("depths", "dynamic", "dynamic page", "are at")), columns("depths", "pages", "static", "dynamic"), one("depths"), "most static pages were at level 5, and dynamic pages became more with each level (8.3.4)", nil},
			{"Dynamic pages by technology", shares("technologies", "technology", "pages", "dynamic page", "are: "), bars("technologies", "technology", "pages"), one("technologies"),
				"PHP was first, then ASP and Java (8.3.6)", nil},
			{"Changes and lifespans", all(figures("No page was visited twice.",
				"Visited twice or more often: {page|pages visited twice or more}, with {mean changes of such a page} changes seen of each on average.",
				"The mean interval between changes is {mean interval between changes, days} days.",
				"Judging by their histories, half of these pages change within {half-life of change, days} days (half-life of change)."),
				figures("", "Gone: {page|pages that are gone}, seen to live {mean lifespan of a page that is gone, days} days on average, and half of them at most {median lifespan of a page that is gone, days} (median lifespan).")),
				columns("changes", "pages", "pages"), []string{"changes", "intervals", "lifetimes"},
				"studies that it cites found half-lives of 2 to 4.5 years, and lifespans of 50 to 240 days (table 2.1)", nil},
			{"Copies whose page is gone", all(rows("dead", above("copies", 0), "There is no copy of a page.", "Sites {sites}: {page|copies} stored, of which {%share} had vanished at the last visit."),
				rows("dead", above("gone", 0), "", "Sites {sites}: {page|gone} more that had vanished for longer, and whose copies no longer count.")), nil, one("dead"), "it cites 5.3 % of search results that lead to deleted pages (2.4.2)", nil},
		}},
		{"Languages", []section{
			{"Languages by depth", all(shares("languages", "language", "declared", "page with text", "declare "), shares("languages", "language", "sampled", "page of the sample", "are, by their words, ")), byLevel("languages", "language", "sampled", "declared"), one("languages"),
				"of 5,000 pages 71 % were Spanish and 27 % English; over 90 % of the home pages were Spanish, at level 5 some 60 % (8.3.5)", nil},
		}},
		{"Links", []section{
			{"Links in and out", all(classes("degrees", "in", "page", "incoming link"), classes("degrees", "out", "page", "outgoing link"), laws("links to a page", "links of a page")),
				histograms("degrees", "pages", "link", "in", "links to a page", "out", "links of a page"), one("degrees"),
				"exponents -2.11 in and -2.40 out in .cl, -2.02 and -2.17 in .gr, for degrees up to 350 (8.7.2)", nil},
			{"Length and links", rows("length_links", most("mean"), "No page has a link.", "Pages of {from} to {to} bytes have the most links, {mean} on average."), points("length_links", "mean", "bytes of a page", "outgoing links, mean", true), one("length_links"),
				"a page that is too small cannot have many links (8.5.1)", nil},
			{"Scores of pages", figures("There is no page to rank.", "{%share of pages with a hub score} of the pages have a hub score above zero, and {%share of pages with an authority score} an authority score.",
				"{%share of pages with less than the mean} have less than the mean Pagerank; the lowest Pagerank is {least Pagerank of a page, mean 1} times the mean."), histograms("scores", "pages", "unit", "pagerank", "Pagerank of a page, mean 1", "hub", "hub score of a page, mean 1", "authority", "authority score of a page, mean 1"), one("scores"),
				"12 % of the pages had a hub score above zero, 3 % an authority score (8.5.2)", nil},
			{"Pagerank by level", rows("pagerank_levels", first(above("cumulative", .8)), "There is no page to rank.", "Pages up to level {depth} have {%cumulative} of the Pagerank."), points("pagerank_levels", "cumulative", "level", "share of the Pagerank up to it", false), one("pagerank_levels"),
				"the first five levels had over 80 % of the Pagerank (5.5)", nil},
			{"Links to files", all(shares("references", "group", "links", "link to a file", "are to "), shares("references", "extension", "links", "link to a file", "end in ")),
				bars("references", "extension", "links"), one("references"),
				"400,000 links to documents, PDF first; 30,000 to source code, 600,000 to software, 370,000 to compressed files, GZ first (8.3.7 to 8.3.10)", nil},
			{"Images, audio and video", all(peak("media", "links", "link to images, audio and video", "are at"), rows("media", first(above("links", 0)), "", "Of those at level {depth}, {%repeated_share} repeat another one at that level.")), columns("media", "links", "links"), one("media"),
				"80 million links to images, 50,000 to audio, 8,000 to video; on home pages a third was not unique, inside a tenth (8.3.8)", nil},
			{"Links to other hosts, by top-level domain", shares("tlds", "tld", "links", "link to another host", "lead to "), bars("tlds", "tld", "links"), one("tlds"),
				"without .cl: COM 65.11 %, ORG 11.81 %, NET 8.41 %, DE 1.62 % (table 8.2)", nil},
		}},
		{"Sites", []section{
			{"Pages of a site", all(classes("site_pages", "sites", "site", "page"), topTenth("pages"), laws("pages of a site")), histograms("site_pages", "sites", "page", "sites", "pages of a site"), one("site_pages"),
				"66.88 on average, exponent -1.77; a tenth of the sites had over 90 % of the pages (8.4.1)", nil},
			{"Bytes of a site", all(classes("site_bytes", "sites", "site", "byte"), topTenth("bytes"), laws("bytes of a site")), histograms("site_bytes", "sites", "byte", "sites", "bytes of a site"), one("site_bytes"),
				"1.1 MB on average; a tenth of the sites had over 95 % of the bytes (8.4.2)", nil},
			{"Greatest depth of a site", all(figures("", "The greatest depth of a site is {mean of the greatest depth of a site} on average."), peak("site_depths", "sites", "site", "reach")), columns("site_depths", "sites", "sites"), one("site_depths"), "1.5 on average (8.4.3)", nil},
			{"Ages of sites", figures("No site has a page with a credible date of modification.",
				"The oldest page is at most a year old on {%share of dated sites whose oldest page is at most a year old} of the sites with dates, and at most two years old on {%share of dated sites whose oldest page is at most two years old}."), columns("site_ages", "sites", "oldest"), one("site_ages"), "the oldest page was at most a year old on 55 % of the sites, and at most two years old on three quarters (8.4.4)", nil},
		}},
		{"Links between sites", []section{
			{"The graph of sites", unlessNone("with either", "No site has a link to or from another one.", figures("There is no site.", "{%with a link from another site} of the sites have links from others, {%with a link to another site} to others, {%with either} either.")), nil, one("site_graph"), "36 % of the sites had links from others, 28 % to others, 47 % either (table 8.3)", nil},
			{"Links of sites", all(classes("site_degrees", "in", "site", "linking site"), classes("site_degrees", "out", "site", "linked site"), laws("links to a site", "links of a site")),
				histograms("site_degrees", "sites", "link", "in", "links to a site", "out", "links of a site"), one("site_degrees"), "", nil},
			{"Scores of sites", rows("site_scores", most("from"), "There is no site with a link.", "Pagerank, hub and authority are sums over the pages of a site, and Siterank is Pagerank in the graph of sites; the highest of all these scores is at least {from} times the mean."), histograms("site_scores", "sites", "unit", "pagerank", "Pagerank of all pages of a site, mean 1", "hub", "hub scores of all pages, mean 1", "authority", "authority scores of all pages, mean 1", "siterank", "Siterank, mean 1"), []string{"site_scores", "sites"}, "", nil},
			{"The most linked sites", rows("linked_sites", first(above("linking_sites", 0)), "No site has a link from another one.", "{site} has links from {other site|linking_sites}, and no site has links from more."), bars("linked_sites", "site", "linking_sites"), one("linked_sites"),
				"an access counter led with 675 sites, before the tax office (647) and a university (595; table 8.4)", nil},
			{"Strongly connected components", rows("components", most("size"), "No site has a link to or from another one.", "The largest component has {site|size}."), points("components", "components", "sites in it", "components", true), one("components"),
				"one of 5,202 sites; the next had 10, and 17,393 consisted of one site (table 8.5)", nil},
			{"The bow-tie", shares("bowtie", "part", "sites", "site", "are in "), drawBowtie, one("bowtie"), "MAIN 10.51 %, IN 7.23 %, OUT 18.15 %, tentacles 6.98 %, tunnel 0.33 %, islands 56.81 % (figure 8.22)", nil},
		}},
		{"What cooperation saved", []section{
			{"Requests and bytes", rows("saved", above("requests", 0), "Nothing is proved to be saved: no site has told of its pages, or the crawl has not gone on for long enough.", "{way}: {requests} of {of}."), bars("saved", "way", "requests"), one("saved"), "", nil},
			{"In money", all(rows("money", above("requests", 0), "Nothing was spent.", "{what}: {request|requests}, {sum} in all."),
				rows("money", first(above("of_a_page", 0)), "", "Each side pays its price, the servers and the crawler; what was spent is {of_a_page} for each stored page.")), nil, one("money"), thesisMoney, nil},
		}},
		{"Visitors", []section{
			{"Where visits begin", peak("entries", "visits", "visit", "begin at"), columns("entries", "visits", "visits"), one("entries"), "the deeper the directory, the fewer visits began there (figure 5.16)", nil},
		}},
	}
}
