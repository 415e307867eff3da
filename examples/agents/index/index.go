// Index is an agent that makes a partial inverted index of a site (C15): each change comes with the index of
// its page, so that the agent's sender only has to merge it with those of all other pages and sites, and
// never reads a page.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags "-s -w" -o index.wasm ./examples/agents/index
//	crawler index build site.index --from https://www.example.org/ --program index.wasm --token "$TOKEN"
//	crawler index merge all.index site.index other.index
//	crawler index search all.index "some words"
package main

import (
	"crypto/sha256"

	"github.com/parleyweb/parley/client/index"
	"github.com/parleyweb/parley/examples/agents/guest"
)

func main() {}

// decide accepts every change, with the index of the page if the site has it.
func decide(q *guest.Question) (tell bool, output []byte) {
	if q.Page == nil {
		return true, nil
	}
	output, err := index.Page(index.Doc{URL: q.Change.URL, Digest: sha256.Sum256(q.Page)}, q.Change.Type, q.Page)
	if err != nil {
		panic(err)
	}
	return true, output
}
