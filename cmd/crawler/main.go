// Crawler crawls sites and follows those that publish their changes. Its manual is "crawler -h".
package main

import (
	"context"
	"os"

	"github.com/parleyweb/parley/cmd/crawler/internal/simulate"
	"github.com/parleyweb/parley/cmd/crawler/internal/webreport"
	"github.com/parleyweb/parley/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), crawler, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func crawler() *command.Command {
	return &command.Command{
		Name:    "crawler",
		Summary: "crawl sites, and keep the stored pages fresh",
		Usage:   "COMMAND [options]",
		Help: `
Find out what a site offers to crawlers:
    crawler probe https://www.example.org/ --contact you@example.net

Crawl it, once or continuously:
    crawler crawl https://www.example.org/ --into crawl/ --contact you@example.net
    crawler run --into crawl/ --contact you@example.net

Show the state of the crawl, running or not, and what has changed:
    crawler status crawl/
    crawler events --into crawl/ --follow

Describe what was crawled, as a page with charts and as tables:
    crawler report --into crawl/ --html report.html --csv tables/

Keep a plain copy of one site that publishes its changes:
    crawler follow https://www.example.org/ --into mirror/ --contact you@example.net

Commands that read a collection or a copy accept its DIR with --into or, unless
they accept a list of arguments, as their last argument. Most accept --cluster
instead: the crawl of several machines.`,
		Sub: []*command.Command{crawlOnce(), runCommand(), follow(), status(), sites(), pages(), links(), why(), add(), accept(), pauseSites(), resumeSites(), changeRate(), changeScope(), get(), events(), export(), indexes(), webreport.Command(snapshot), probeSite(), simulate.Command(linksIn), config()},
	}
}
