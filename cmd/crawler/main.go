// Crawler follows sites that speak. Its manual is "crawler -h".
package main

import (
	"context"
	"os"

	"github.com/parleyweb/parley/internal/command"
)

func main() {
	os.Exit(command.Main(context.Background(), crawler, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func crawler() *command.Command {
	return &command.Command{
		Name:    "crawler",
		Summary: "crawl sites, and keep what is held of them fresh",
		Usage:   "COMMAND [options]",
		Help: `
Find out what a site offers to crawlers:
    crawler probe https://www.example.org/ --contact you@example.net

Crawl it, once, or from now on:
    crawler crawl https://www.example.org/ --into crawl/ --contact you@example.net
    crawler run --into crawl/ --contact you@example.net

See how it stands, while it runs or not, and what has changed:
    crawler status crawl/
    crawler events --into crawl/ --follow

Keep a plain copy of one site that tells what changes:
    crawler follow https://www.example.org/ --into mirror/ --contact you@example.net`,
		Sub: []*command.Command{crawlOnce(), crawlOn(), follow(), status(), sites(), pages(), links(), why(), add(), accept(), get(), events(), export(), indexes(), probeSite(), simulate(), config()},
	}
}
