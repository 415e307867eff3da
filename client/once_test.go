package client_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/internal/sitetest"
	"github.com/parleyweb/parley/protocol"
)

// A client that visits now and then gets the news from the manifest, and nothing that it has already:
// nothing if it is unchanged, the changes if the site can list them, else all of it.
func TestManifestReadOnce(t *testing.T) {
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("p%d.html", i)] = "as it was"
	}
	s := sitetest.NewSite(t, files)
	var statuses []int
	var bytes atomic.Int64
	src := client.Source{Base: s.Base, Once: true, HTTP: &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			statuses = append(statuses, resp.StatusCode)
			bytes.Add(max(0, resp.ContentLength))
		}
		return resp, err
	})}}
	var at protocol.Cursor
	come := func() (told int, whole bool) {
		t.Helper()
		statuses = nil
		for step, err := range client.Follow(t.Context(), &src, at) {
			if err != nil {
				t.Fatal(err)
			}
			told += len(step.Changes)
			whole = step.Whole
			if !step.Cursor.IsZero() {
				at = step.Cursor
			}
			if step.ETag != "" {
				src.ETag, src.LastModified = step.ETag, step.LastModified
			}
		}
		return told, whole
	}
	if told, whole := come(); told != 200 || !whole || src.ETag == "" {
		t.Fatalf("first %d pages, whole %v, ETag %q", told, whole, src.ETag)
	}
	if told, _ := come(); told != 0 || fmt.Sprint(statuses) != "[304]" {
		t.Errorf("unchanged: %d pages, answers %v", told, statuses)
	}
	s.Write("p7.html", "as it is")
	s.Publish()
	if told, whole := come(); told != 1 || whole || fmt.Sprint(statuses) != "[226]" {
		t.Errorf("after an edit: %d pages, whole %v, answers %v", told, whole, statuses)
	}
	s.LoseState()
	if told, whole := come(); told != 200 || !whole {
		t.Errorf("after a new epoch: %d pages, whole %v, answers %v", told, whole, statuses)
	}
	s.Break("/robots.rdf", sitetest.Status(http.StatusInternalServerError, 0))
	n := 0
	for _, err := range client.Follow(t.Context(), &src, at) {
		if n++; err == nil || n > 1 {
			t.Fatalf("failing site: step %d, %v", n, err)
		}
	}
	if n != 1 {
		t.Error("failing site is not reported")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
