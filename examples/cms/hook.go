package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/parleyweb/parley/protocol"
)

// A Hook announces changes to the notifier: this is all that a content management system needs to support
// Parley. It sends the state of a page at the time of sending, not of the change, so notices may be late,
// repeated or out of order.
type Hook struct {
	Store    *Store
	Site     *Site
	Announce string // URL of the notifier's /parley/announce
	Token    string
	Log      *slog.Logger
}

const (
	hookBatch   = 500 // pages in one request; the notifier accepts 1,000
	hookTimeout = 15 * time.Second
	hookLeast   = 200 * time.Millisecond // before the first retry; doubled for each retry, up to hookMost
	hookMost    = time.Minute
)

// Run sends each pending notice at once, and retries until the notifier answers 200. It returns when ctx ends.
func (h *Hook) Run(ctx context.Context) error {
	for wait := hookLeast; ; {
		owed := h.Store.Owed(hookBatch)
		if len(owed) == 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-h.Store.owes:
			}
			continue
		}
		after, err := h.tell(ctx, owed)
		if err == nil {
			err, wait = h.Store.Settle(owed), hookLeast
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			continue
		}
		after = max(after, wait)
		h.Log.Warn("announcement to the notifier failed", "pages", len(owed), "err", err, "again_in", after)
		wait = min(2*wait, hookMost)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(after):
		}
	}
}

// tell announces the pages at some paths. If the notifier refuses the request, tell returns an error and the
// wait that the notifier asks for, 0 to hookMost.
func (h *Hook) tell(ctx context.Context, paths map[string]time.Time) (after time.Duration, err error) {
	var said struct {
		Pages []protocol.Announcement `json:"pages"`
	}
	for path, since := range paths {
		a := protocol.Announcement{URL: h.Site.Base + path[1:]}
		if doc, ok := h.Site.Document(path); ok {
			length := int64(len(doc.Body))
			a.Modified, a.Digest, a.Length, a.Type, a.Title = doc.Modified, protocol.Sum(doc.Body), &length, "text/html", doc.Title
		} else {
			a.Gone, a.Modified = true, since
		}
		said.Pages = append(said.Pages, a)
	}
	body, err := json.Marshal(said)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Announce, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+h.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if resp.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return min(time.Duration(seconds)*time.Second, hookMost), fmt.Errorf("%s: %.200s", resp.Status, answer)
	}
	var done protocol.Announced
	if err == nil {
		err = json.Unmarshal(answer, &done)
	}
	if err != nil {
		return 0, err
	}
	for _, r := range done.Refused { // not retried: they would be refused again
		h.Log.Warn("the notifier refused to publish a page", "url", r.URL, "reason", r.Reason)
	}
	h.Log.Debug("announced pages to the notifier", "pages", len(paths), "cursor", done.Cursor.String())
	return 0, nil
}
