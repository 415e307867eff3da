package ping_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/site/ping"
	"github.com/parleyweb/parley/protocol"
)

// A site notifies an engine of a new page, as it does under cron.
func ExampleIndexNow_Turn() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	engine := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var told struct{ URLList []string }
		json.NewDecoder(r.Body).Decode(&told)
		fmt.Println("the engine is told of", len(told.URLList), "page")
	})
	mux := http.NewServeMux()
	mux.Handle("POST /indexnow", engine)
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	web := httptest.NewServer(mux)
	defer web.Close()

	state, err := journal.Open(filepath.Join(dir, ".state"), nil)
	if err != nil {
		panic(err)
	}
	defer state.Close()
	state.EndBaseline()

	sender := &ping.IndexNow{Options: ping.IndexNowOptions{Journal: state, Base: web.URL + "/", Engines: []string{web.URL + "/indexnow"}, KeyDir: dir}}
	ctx := context.Background()
	sender.Turn(ctx) // starts to follow
	state.Append(ctx, []journal.Step{{Op: protocol.Create, Entry: journal.Entry{Item: protocol.Item{URL: web.URL + "/new.html", Length: -1}}}})
	result, err := sender.Turn(ctx)
	fmt.Println(result.Sent, "sent,", result.Pending, "pending,", err)
	// Output:
	// the engine is told of 1 page
	// 1 sent, 0 pending, <nil>
}

func ExampleLinks() {
	fmt.Println(ping.Links("https://www.example.org/parley/hub", "https://www.example.org/feed.xml"))
	// Output: <https://www.example.org/parley/hub>; rel="hub", <https://www.example.org/feed.xml>; rel="self"
}
