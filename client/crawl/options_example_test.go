package crawl_test

import (
	"context"
	"log"

	"github.com/parleyweb/parley/client/crawl"
)

// A crawl of a site into a directory, continued by the next run.
func ExampleOptions() {
	o := crawl.DefaultOptions()
	o.Start = []string{"https://www.example.org/"}
	o.Collection.Into = "crawl"
	o.Fetch.Contact = "you@example.net"
	o.Once = true
	c, err := o.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Collection.Close()
	if err := c.Run(context.Background()); err != nil {
		log.Print(err)
	}
}
