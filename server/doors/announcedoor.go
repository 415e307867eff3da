package doors

import (
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
	*site
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
	d.deadline(w, announceRead)
	body, p := web.ReadBody(w, r, "announcements", announceMost)
	if p != nil {
		return p
	}
	list, err := protocol.ParseAnnouncements(body, lines)
	if err != nil {
		return unreadable(err)
	}
	d.deadline(w, announceWait)
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
		d.logger.Error("announcements could not be stored", "pages", len(list), "err", err)
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

// unreadable is the answer to announcements that cannot be parsed.
func unreadable(err error) *web.Problem {
	bad := (*protocol.ParameterError)(nil)
	switch {
	case errors.Is(err, protocol.ErrLimit):
		return web.Plain(http.StatusRequestEntityTooLarge, fmt.Sprintf("more than %d pages at once: send them in several requests", protocol.MaxBatch))
	case errors.As(err, &bad):
		p := web.Plain(http.StatusBadRequest, bad.Err.Error()+"; no page was accepted")
		p.Parameter = bad.Name
		return p
	}
	return web.Plain(http.StatusBadRequest, "the body is not valid JSON: "+err.Error())
}
