package protocol_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/protocol"
)

// Whatever parses is at most as many announcements as one request may have, each with a URL, and parses
// again when written as a list.
func FuzzParseAnnouncements(f *testing.F) {
	for _, s := range []string{``, `{"url":"/x","modified":"2026-11-21T09:00:00Z"}`, `[{"url":"/x","gone":true},{"url":"y"}]`,
		`{"pages":[{"url":"/x","digest":"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:","length":-1}]}`,
		`{"pages":null}`, `{"pages":{}}`, "{\"url\":\"/x\"}\n{\"url\":\"/y\"}\n", `[[[[`, "\xff", `{"url":"\ud800"}`} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		list, err := protocol.ParseAnnouncements(body, lines)
		if bad := (*protocol.ParameterError)(nil); errors.As(err, &bad) && !strings.HasPrefix(bad.Name, "pages[") {
			t.Errorf("parameter %s", bad.Name)
		}
		if err != nil {
			return
		}
		if len(list) > protocol.MaxBatch || slices.ContainsFunc(list, func(a protocol.Announcement) bool { return a.URL == "" }) {
			t.Errorf("%d pages: %+v", len(list), list)
		}
		text, err := json.Marshal(list)
		if err != nil {
			return // a date after the year 9999, for example
		}
		if again, err := protocol.ParseAnnouncements(text, false); err != nil || len(again) != len(list) {
			t.Errorf("%d pages again, not %d: %v", len(again), len(list), err)
		}
	})
}
