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
		Summary: "follow sites that tell what changed",
		Usage:   "COMMAND [options]",
		Help: `
Keep a copy of a site, fetching exactly what changes:
    crawler follow https://www.example.org/ --into mirror/ --contact you@example.net

See how it stands, while it runs or not:
    crawler status mirror/`,
		Sub: []*command.Command{crawlOnce(), crawlOn(), follow(), status(), sites(), pages(), links(), why(), add(), get(), probeSite(), config()},
	}
}
