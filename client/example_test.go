package client_test

import (
	"context"
	"fmt"
	"path"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

func ExampleFollow() {
	site := exampleSite()
	defer site.Close()

	for step, err := range client.Follow(context.Background(), &client.Source{Base: site.Base}, protocol.Cursor{}) {
		if err != nil {
			continue // a report: Follow goes on by itself
		}
		for _, c := range step.Changes {
			fmt.Println(step.Door, c.Op, path.Base(c.Item.URL))
		}
		if step.Door == client.Stream && len(step.Changes) > 0 {
			break
		}
		site.Write("news.html", "what is new") // and Follow is told
	}
	// Output:
	// manifest create about.html
	// manifest create news.html
	// stream update news.html
}

// exampleSite is a site with two pages, which publishes each file written to it.
func exampleSite() *sitetest.Site {
	site, err := sitetest.Start(map[string]string{"about.html": "about us", "news.html": "nothing"})
	if err != nil {
		panic(err)
	}
	site.Watch()
	return site
}
