package endtoend

// elsewhere are the commands of the documentation that TestDocumentedCommands does not run, by page: with the test that runs them
// or their like, the script of packaging that does, or why none can.
var elsewhere = map[string]map[string]string{
	"README.md": {
		"rdfgen setup --docroot /var/www/html --base https://www.example.org/":                                     "internal/endtoend TestSetupAndDoctor",
		"go run ./examples/quickstart":                                                                             "examples/quickstart TestQuickstart",
		"go install github.com/parleyweb/parley/cmd/rdfgen@latest github.com/parleyweb/parley/cmd/notifier@latest": published,
		"go install github.com/parleyweb/parley/cmd/crawler@latest":                                                published,
		"nginx -s reload":                    "packaging/paths",
		"go get github.com/parleyweb/parley": published,
		"go test ./...":                      "not run: this test is part of it",
	},
	"docs/crawling.md": {
		"crawler report --into crawl/ --against older/ --html compared.html":                 "cmd/crawler TestReport",
		"crawler report --into crawl/ --html report.html --log '/var/log/nginx/access.log*'": "cmd/crawler TestReportOfVisits",
		"crawler simulate batch": "cmd/crawler/internal/simulate TestSimulateBatch",
		"crawler simulate batch --at-once 1,2,5,10,20,50,100 --chart batch.html": "cmd/crawler/internal/simulate TestSimulateBatch",
		"crawler simulate paper --only speedups":                                 "cmd/crawler/internal/simulate TestSpeedups",
		"crawler simulate servers":                                               "cmd/crawler/internal/simulate TestSimulateServers",
		"crawler simulate browsing":                                              "cmd/crawler/internal/simulate TestSimulateBrowsing",
		"crawler simulate browsing --log access.log":                             "cmd/crawler/internal/simulate TestSimulateBrowsingOfLogs",
		"crawler simulate browsing --paths wikispeedia/":                         "cmd/crawler/internal/simulate TestSimulateBrowsingOfPaths",
		"crawler crawl --depth-for 0.9 --q 0.6 ...":                              "cmd/crawler TestCrawlToTheDepthOfVisitors",
	},
	"docs/day-one.md": {
		"apt-get install nginx": "packaging/paths",
		"go install github.com/parleyweb/parley/cmd/rdfgen@latest": published,
	},
	"docs/go.md": {"go get github.com/parleyweb/parley": published},
	"docs/scale.md": {
		"crawler run https://www.example.org/ --domain org --cluster nats://crawl:PASSWORD@nats1:4222,nats://crawl:PASSWORD@nats2:4222 --partitions 32 --into crawl/ --contact you@example.net": "cmd/crawler TestCluster",
		"notifier --docroot /var/www/html --base https://www.example.org/ --log nats://site:PASSWORD@nats1:4222,nats://site:PASSWORD@nats2:4222":                                                "internal/endtoend TestDoorsOnSeveralMachines",
		"notifier --door --base https://www.example.org/ --log nats://site:PASSWORD@nats1:4222,nats://site:PASSWORD@nats2:4222":                                                                 "internal/endtoend TestDoorsOnSeveralMachines",
	},
	"docs/freshness.md": {
		"crawler simulate freshness":                        "cmd/crawler/internal/simulate TestSimulateFreshness",
		"crawler simulate freshness --chart freshness.html": "cmd/crawler/internal/simulate TestSimulateFreshness",
		"crawler simulate freshness --trace mine.csv":       "cmd/crawler/internal/simulate TestFreshnessOfOnesOwnHistory",
		"crawler simulate exponents":                        "cmd/crawler/internal/simulate TestSimulateExponents",
		"crawler simulate feeds":                            "cmd/crawler/internal/simulate TestSimulateFeeds",
		"crawler simulate paper":                            "cmd/crawler/internal/simulate TestSimulatePaper",
		"go run ./bench/fresh":                              "bench/fresh TestRun",
		"go run ./bench/fresh -data DIR":                    "not run: it takes hours",
		"go run ./bench/fresh -only 4 -seeds 1":             "bench/fresh TestRun",
	},
	"docs/order.md": {
		"crawler simulate order":                                                 "cmd/crawler/internal/simulate TestSimulateOrder",
		"crawler simulate order --graph FILE --chart order.html":                 "cmd/crawler/internal/simulate TestSimulateOrder",
		"crawler simulate order --tell 0,10,50,100":                              "cmd/crawler/internal/simulate TestSimulateOrder",
		"crawler simulate order --graph NEW --history OLD":                       "internal/sim/order TestHistory",
		"crawler simulate order --ahead 100":                                     "internal/sim/order TestEachPageIsTheBestKnown",
		"crawler simulate order --rest 15":                                       "internal/sim/order TestWhenLargerSitesFirstWins",
		"crawler simulate order --graph crawl/":                                  "cmd/crawler/internal/simulate TestSimulateOrderOfCollection",
		"crawler crawl --strategy partial-pagerank --rank-every 5000 ...":        "client/crawl TestPagerankOrders",
		"crawler crawl --strategy historical-pagerank-parent --history old/ ...": "client/crawl/internal/rank TestHistoryOfACollection",
		"crawler crawl --score history=1,depth=1 --history scores.txt ...":       "client/crawl TestHistoryOrders",
		"crawler crawl --strategy larger-sites-first --round 0 ...":              "client/crawl TestRound",
	},
	"docs/site.md": {
		"rdfgen setup --docroot /var/www/html --base https://www.example.org/":                               "internal/endtoend TestSetupAndDoctor",
		"xcaddy build --with github.com/parleyweb/parley/caddy=./caddy --with github.com/parleyweb/parley=.": "caddy TestSite",
	},
	"docs/versions.md": {
		`curl -s -H 'Accept-Encoding: dcz' -H "Available-Dictionary: :$(openssl dgst -sha256 -binary OLD | base64):" URL | zstd -dc --patch-from=OLD`: "examples/nginx TestVersionsBehindNginx",
	},
	"packaging/README.md": {
		"packaging/build 0.1.0 dist":                  "packaging/test",
		"packaging/images 0.1.0 dist":                 "packaging/test",
		"packaging/test":                              "not run: it needs root, and takes minutes",
		"packaging/paths dist/parley_0.1.0_amd64.deb": "not run: it needs root, and takes minutes",
		"rdfgen setup":                                "internal/endtoend TestSetupAndDoctor",
		"sudo -u www-data rdfgen --dry-run":           "packaging/test",
		"systemctl enable --now parley-notifier":      "packaging/paths",
		"rdfgen doctor":                               "packaging/paths",
		"$EDITOR /etc/parley-crawler.conf":            "not run: it needs a person",
		"install -d -o parley /srv/crawl && systemctl enable --now parley-crawler":                                                           "not run: it needs systemd",
		"docker run -v /var/www/html:/site:ro -v parley:/state -p 127.0.0.1:8639:8639 parley-notifier:0.1.0 --base https://www.example.org/": "packaging/test",
		"docker run -v crawl:/data parley-crawler:0.1.0 run https://www.example.org/ --into /data/crawl --contact you@example.net":           "packaging/test",
	},
	"examples/agents/README.md": {
		"crawler index merge all.index site.index other.index":                                                                   "cmd/crawler TestIndexBuildMergeSearch",
		`crawler index search all.index "some words"`:                                                                            "cmd/crawler TestIndexBuildMergeSearch",
		`curl -H "Authorization: Bearer $TOKEN" "https://www.example.org/parley/changes?after=CURSOR&agent=sha-256%3D%3A...%3A"`: "not run: docs/schemes.md has it with a cursor and a digest",
		`curl -X POST -H "Authorization: Bearer $TOKEN" "https://www.example.org/parley/agents/run?agent=sha-256%3D%3A...%3A"`:   "examples/agents TestCommand",
	},
	"examples/cms/README.md": {
		"openssl rand -hex 16 > token": "examples/cms TestEditsReachSubscriberAndMirror",
		"CMS_PASSWORD=secret go run ./examples/cms --store pages.json --token-file token &":     "examples/cms TestEditsReachSubscriberAndMirror",
		"notifier --base http://127.0.0.1:8080/ --state /tmp/cms-state --announce-tokens token": "examples/cms TestEditsReachSubscriberAndMirror",
		"go run ./examples/subscribe http://127.0.0.1:8080/ cursor.txt":                         "examples/subscribe TestSubscribe",
	},
	"examples/described/README.md": {
		"python3 examples/described/mirror.py follow https://www.example.org/ copy.db": "examples/described TestMirror",
		"python3 examples/described/mirror.py write copy.db DIR":                       "examples/described TestMirror",
	},
	"examples/monitoring/README.md": {
		"prometheus --config.file prometheus.yml": "examples/monitoring TestQueriesWithPrometheus",
	},
	"examples/nginx/README.md": {
		"go build -o /usr/local/bin/ github.com/parleyweb/parley/cmd/...":                                      "internal/endtoend TestMain",
		"cp parley-pages.conf /etc/nginx/ && cp parley.conf /etc/nginx/conf.d/ && nginx -t && nginx -s reload": "examples/nginx TestServerBlock",
		"cp parley-notifier.service /etc/systemd/system/ && systemctl enable --now parley-notifier":            "packaging/test",
	},
	"examples/subscribe/README.md": {
		"go run ./examples/subscribe https://www.example.org/ cursor.txt": "examples/subscribe TestSubscribe",
		"python3 examples/subscribe/poller.py https://www.example.org/":   "examples/subscribe TestPoller",
	},
}

const published = "not run: it needs the published module"

// noCommands are the beginnings of blocks that are configuration, output, or code of other languages.
var noCommands = []string{
	"<?php", "<item ", "#!/bin/sh", "announce() {", "async def ", "asyncio.run(", "atom ", "base ", "for step, err", "fresh in ", "import asyncio", "include ", "location ", "o := ",
	"on-change ", "server {", "state.db ", "www.example.org {", `{"cursor"`,
}

// before are commands that a page takes for granted.
var before = map[string][]string{
	"docs/crawling.md":              {"notifier --config /etc/parley.conf"},
	"docs/freshness.md":             {"notifier --config /etc/parley.conf", "crawler crawl https://www.example.org/ --into crawl/"},
	"docs/site.md":                  {"notifier --config /etc/parley.conf"},
	"examples/agents/README.md":     {minor, "notifier --config /etc/parley.conf --preset high --serve-pages"},
	"examples/described/README.md":  {"notifier --config /etc/parley.conf"},
	"examples/monitoring/README.md": {"notifier --config /etc/parley.conf", "crawler crawl https://www.example.org/ --into crawl/"},
	"examples/nginx/README.md":      {"notifier --config /etc/parley.conf"},
}

const minor = `GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags "-s -w" -o minor.wasm ./examples/agents/minor`
