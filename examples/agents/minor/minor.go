// Minor is an agent that suppresses minor edits: an update is delivered only if at least a given share of the
// main text has changed (C14).
//
// It compares the shingles of both versions, all runs of three words, with their counts: the share is that of
// the shingles in only one version. A replaced word counts three times, and a moved paragraph hardly at all.
// A change that cannot be compared, because the page is new or the site has not stored the old version, is
// delivered.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags "-s -w -X main.least=0.05" -o minor.wasm ./examples/agents/minor
//	curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/wasm" --data-binary @minor.wasm https://www.example.org/parley/agents
//
// and then, with the digest that the site has returned, read the changes from
//
//	https://www.example.org/parley/changes?after=CURSOR&agent=sha-256=:...:
package main

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/examples/agents/guest"
	"github.com/parleyweb/parley/internal/html"
)

// least is the minimum changed share of the main text, 0 to 1, of a delivered change. It is set when the
// agent is built.
var least = "0.05"

func main() {}

// decide is called for each change. Its output is {"share":0.25}.
func decide(q *guest.Question) (tell bool, output []byte) {
	if q.Page == nil || q.Before == nil || !strings.HasPrefix(q.Change.Type, "text/html") {
		return true, nil
	}
	bound, err := strconv.ParseFloat(least, 64)
	if err != nil {
		panic(err)
	}
	s := share(text(q, q.Before), text(q, q.Page))
	if s < bound {
		return false, nil
	}
	output, err = json.Marshal(map[string]float64{"share": s})
	if err != nil {
		panic(err)
	}
	return true, output
}

func text(q *guest.Question, page []byte) [][]byte {
	return bytes.Fields(html.Read(q.Change.URL, page, html.Options{Text: true}).Text)
}

const run = 3 // words of a shingle

// share returns the share, 0 to 1, of the shingles of two texts that are in only one of them. A shingle is
// identified by its hash, since an agent has little memory.
func share(before, after [][]byte) float64 {
	counts := make(map[uint64]int32)
	all := 0
	for sign, words := range map[int32][][]byte{1: after, -1: before} {
		for i := range max(1, len(words)-run+1) { // a shorter text is one shingle
			shingle := words[i:min(i+run, len(words))]
			if len(shingle) == 0 {
				continue
			}
			h := fnv.New64a()
			for _, w := range shingle {
				h.Write(w)
				h.Write([]byte{' '})
			}
			counts[h.Sum64()] += sign
			all++
		}
	}
	differ := 0
	for _, n := range counts {
		differ += int(max(n, -n))
	}
	if all == 0 {
		return 0
	}
	return float64(differ) / float64(all)
}
