package doors

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/web"
)

const (
	announceMost = 4 << 20          // the longest body, in bytes
	announceRead = 30 * time.Second // how long it may take to arrive
	announceWait = 5 * time.Second  // how long an announcement waits for a scan in progress
)

// An announceDoor accepts announcements, as documented at Notifier.
type announceDoor struct {
	site     *site
	announce func(context.Context, []protocol.Announcement) (protocol.Announced, error)
	tokens   []string
}

func (d *announceDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	if !d.mayAnnounce(r) {
		p := web.Plain(http.StatusUnauthorized, "announcements need a token of this site: send Authorization: Bearer TOKEN")
		p.Challenge = `Bearer realm="parley announce"`
		return p
	}
	lines, p := announceFormat(r.Header)
	if p != nil {
		return p
	}
	d.site.deadline(w, announceRead)
	body, p := web.ReadBody(w, r, "announcements", announceMost)
	if p != nil {
		return p
	}
	list, p := parseAnnouncements(body, lines)
	if p != nil {
		return p
	}
	d.site.deadline(w, announceWait)
	ctx, stop := context.WithTimeout(r.Context(), announceWait)
	defer stop()
	done, err := d.announce(ctx, list)
	switch {
	case err == nil:
	case errors.Is(err, content.ErrNotReady), errors.Is(err, context.DeadlineExceeded):
		return web.Unavailable("the site is being scanned: send the announcements again")
	case r.Context().Err() != nil:
		return nil // the client has gone
	default:
		d.site.logger.Error("announcements could not be stored", "pages", len(list), "err", err)
		return web.Plain(http.StatusInternalServerError, "the announcements could not be stored")
	}
	b, err := json.Marshal(done)
	if err != nil {
		panic("doors: encode answer: " + err.Error()) // plain values always encode
	}
	web.WriteJSON(w, append(b, '\n'))
	return nil
}

// mayAnnounce reports whether a request has one of the tokens. It takes the same time
// for every token of whatever length, so that none can be guessed piece by piece.
func (d *announceDoor) mayAnnounce(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	may := 0
	for _, t := range d.tokens {
		want := sha256.Sum256([]byte(t))
		if t != "" {
			may |= subtle.ConstantTimeCompare(given[:], want[:])
		}
	}
	return may == 1
}

// announceFormat reports whether the body has one page per line.
func announceFormat(h http.Header) (lines bool, p *web.Problem) {
	if h.Get("Content-Type") == "" && h.Get("Content-Encoding") == "" {
		return false, nil
	}
	t, p := web.BodyType(h, "announcements", "application/json", "application/x-ndjson", "application/jsonl")
	return t != "application/json", p
}

// parseAnnouncements reads the body of a request.
func parseAnnouncements(body []byte, lines bool) ([]protocol.Announcement, *web.Problem) {
	pages, p := splitPages(body, lines)
	if p != nil {
		return nil, p
	}
	list := make([]protocol.Announcement, len(pages))
	for i, page := range pages {
		if page = bytes.TrimSpace(page); len(page) == 0 || page[0] != '{' {
			return nil, badPage(i, errors.New("not a JSON object"))
		}
		if err := json.Unmarshal(page, &list[i]); err != nil {
			return nil, badPage(i, err)
		}
		if list[i].URL == "" {
			return nil, badPage(i, errors.New("url is missing"))
		}
	}
	return list, nil
}

// splitPages returns the JSON of each page, without decoding the pages.
func splitPages(body []byte, lines bool) (pages []json.RawMessage, p *web.Problem) {
	if lines {
		s := bufio.NewScanner(bytes.NewReader(body))
		s.Buffer(nil, announceMost+1)
		for s.Scan() {
			if line := bytes.TrimSpace(s.Bytes()); len(line) > 0 {
				pages = append(pages, bytes.Clone(line))
			}
			if len(pages) > protocol.MaxBatch {
				return nil, tooMuch(fmt.Sprintf("more than %d pages", protocol.MaxBatch))
			}
		}
		return pages, nil
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		return nil, web.Plain(http.StatusBadRequest, "the body is not valid JSON: "+err.Error())
	}
	whole = bytes.TrimSpace(whole)
	if whole[0] == '{' {
		var o struct{ Pages json.RawMessage }
		if err := json.Unmarshal(whole, &o); err != nil || len(o.Pages) == 0 || o.Pages[0] != '[' {
			return []json.RawMessage{whole}, nil
		}
		whole = o.Pages
	}
	if whole[0] != '[' {
		return []json.RawMessage{whole}, nil
	}
	d := json.NewDecoder(bytes.NewReader(whole))
	d.Token() // the bracket
	for d.More() {
		if len(pages) == protocol.MaxBatch {
			return nil, tooMuch(fmt.Sprintf("more than %d pages", protocol.MaxBatch))
		}
		var page json.RawMessage
		if err := d.Decode(&page); err != nil {
			return nil, badPage(len(pages), err)
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// badPage is the answer to a page that cannot be read; i counts from 0 in the list.
func badPage(i int, err error) *web.Problem {
	p := web.Plain(http.StatusBadRequest, fmt.Sprintf("page %d cannot be read: %v; no page was accepted", i, err))
	p.Parameter = fmt.Sprintf("pages[%d]", i)
	return p
}

func tooMuch(what string) *web.Problem {
	return web.Plain(http.StatusRequestEntityTooLarge, what+" at once: send them in several requests")
}
