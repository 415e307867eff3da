package ping

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// maxRefused is how often an engine may refuse a URL in a batch of one before
	// the URL is dropped. One refusal may be a transient error.
	maxRefused = 3

	// maxAlone is how many batches of one URL in a row an engine may refuse before
	// it is assumed to refuse everything, and backoff begins.
	maxAlone = 3

	// maxWithheld is how long a page that is present but not public waits to
	// become public, or to be withdrawn.
	maxWithheld = 24 * time.Hour

	// burnedAgain is the wait before one URL is sent again with a burned key:
	// perhaps the engine was wrong.
	burnedAgain = 24 * time.Hour

	// rotateAgain is the minimum age of a key that is replaced automatically.
	rotateAgain = 24 * time.Hour

	maxResults = 20
)

// An Outcome is the result of one batch.
type Outcome struct {
	At     time.Time `json:"at"`
	Status int       `json:"status"` // of HTTP; 0 if there was no response, or nothing was sent
	URLs   int       `json:"urls"`   // in the batch
	Note   string    `json:"note,omitempty"`

	// URL is the URL refused in a batch of one, cut to 500 bytes. Dropped says
	// that it is not sent again unless it changes.
	URL     string `json:"url,omitempty"`
	Dropped bool   `json:"dropped,omitempty"`
}

func (o Outcome) accepted() bool { return o.Status >= 200 && o.Status < 300 }

// A KeyState is the state of the key at an engine.
type KeyState string

const (
	KeyAccepted KeyState = "accepted"
	KeyPending  KeyState = "pending" // accepted, not checked yet
	KeyUnserved KeyState = "unserved"
	KeyRefused  KeyState = "refused" // for an unknown reason
	KeyBurned   KeyState = "burned"  // refused although it is served right
)

// A draft is a batch to be sent, and the new states of URLs that are due but not
// sent.
type draft struct {
	urls  []string
	edits map[string]pendingURL
}

func (e *engine) maxBatch() int { return min(cmp.Or(max(e.o.MaxBatch, 0), maxBatch), maxBatch) }

func (e *engine) ready() bool { return e.o.Ready == nil || e.o.Ready() }

// choose makes a batch of URLs that are due.
func (e *engine) choose(now time.Time, limit int) (draft, error) {
	d := draft{edits: make(map[string]pendingURL)}
	size := 0
	for _, url := range e.due(now) {
		if len(d.urls) == limit || size > maxBody || len(d.edits) == walkAtOnce {
			break
		}
		entry, present, err := e.o.Journal.Get(url)
		if err != nil {
			return d, err
		}
		o := e.urls[url]
		public := e.o.Public == nil || e.o.Public(url)
		switch {
		case present && !public:
			if o.due = now.Add(e.o.debounce()); now.Sub(o.since) > maxWithheld {
				o = lately(o)
			}
			d.edits[url] = o
		case present && !listed(entry.Item), !present && !public && o.fresh:
			d.edits[url] = lately(o)
		default:
			d.urls = append(d.urls, url)
			size += len(url) + 3
		}
	}
	return d, nil
}

// lately returns the state of a URL that need not be sent any more.
func lately(o pendingURL) pendingURL { return pendingURL{sent: o.sent} }

// send sends one batch, if one may be sent now. did is its result, the zero
// Outcome if nothing was tried. more says that there may be another batch to
// send at once.
func (e *engine) send(ctx context.Context) (did Outcome, more bool, err error) {
	now := e.o.now()
	k, err := e.key.current()
	if err != nil {
		return did, false, err
	}
	if e.state.Burned != "" && e.state.Burned != k.Key {
		err := e.commit(nil, func(st *engineState) {
			st.Burned, st.Key, st.Trouble, st.Failures, st.Limit, st.RetryAt = "", "", "", 0, 0, time.Time{}
		})
		if err != nil {
			return did, false, err
		}
	}
	if !over(e.state.RetryAt, now, longestHint) || len(e.urls) == 0 || !e.ready() {
		return did, false, nil
	}
	limit := e.maxBatch()
	if e.state.Limit > 0 {
		limit = min(limit, e.state.Limit)
	}
	d, err := e.choose(now, limit)
	if err == nil && len(d.edits) > 0 {
		err = e.commit(d.edits, func(*engineState) {})
	}
	if err != nil || len(d.urls) == 0 {
		return did, len(d.edits) > 0, err
	}
	if err := e.key.writeFile(); err != nil {
		e.o.log().Warn("indexnow: key file could not be written", "err", err)
	}
	if k.Seen.IsZero() {
		right, wrong, why := e.key.check(ctx, k)
		switch {
		case right:
			err = e.key.seen(k)
		case wrong: // an engine that finds no key may never accept that key again
			did = Outcome{At: e.o.now(), URLs: len(d.urls), Note: "not sent: " + why}
			return did, false, e.failed(did, 0, KeyUnserved, "the key is not served: "+why)
		}
		if err != nil {
			return did, false, err
		}
	}
	a, err := e.post(ctx, k, d.urls)
	if err == nil && errors.Is(a.err, errEnded) {
		err = ctx.Err()
	}
	if err != nil {
		return did, false, err
	}
	return e.judge(ctx, k, d.urls, a)
}

func (e *engine) post(ctx context.Context, k key, urls []string) (answer, error) {
	msg := struct {
		Host        string   `json:"host"`
		Key         string   `json:"key"`
		KeyLocation string   `json:"keyLocation,omitempty"`
		URLList     []string `json:"urlList"`
	}{Host: e.key.base.Host, Key: k.Key, URLList: urls}
	if e.key.base.Path != "/" {
		msg.KeyLocation = e.key.url(k.Key)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(msg); err != nil {
		return answer{}, err
	}
	req, err := http.NewRequest(http.MethodPost, e.endpoint, &b)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	return ask(ctx, transport(e.o.HTTP), req, askTime), nil
}

// judge records the result of a response.
func (e *engine) judge(ctx context.Context, k key, urls []string, a answer) (did Outcome, more bool, err error) {
	did = Outcome{At: e.o.now(), Status: a.status, URLs: len(urls), Note: a.String()}
	switch {
	case a.ok():
		return did, true, e.accepted(did, urls, a)
	case a.status == http.StatusBadRequest, a.status == http.StatusUnprocessableEntity, a.status == http.StatusRequestEntityTooLarge:
		if len(urls) == 1 {
			return e.refused(did, urls[0], a)
		}
		did.Note += "; retrying with half of the URLs"
		return did, true, e.commit(nil, func(st *engineState) {
			st.Limit = len(urls) / 2
			st.add(did)
		})
	case a.status == http.StatusForbidden:
		return did, false, e.keyRefused(ctx, did, k, a)
	}
	pause, edits := a.pause(e.name+" "+e.o.Base, e.state.Failures+1, did.At), make(map[string]pendingURL)
	if a.unclear() { // the batch may have been accepted
		pause = max(pause, e.o.debounce())
		for _, url := range urls {
			if o := e.urls[url]; o.fresh {
				o.fresh = false
				edits[url] = o
			}
		}
	}
	return did, false, e.failedWith(edits, did, pause, e.state.Key, "batch failed: "+a.String(), func(*engineState) {})
}

func (e *engine) accepted(did Outcome, urls []string, a answer) error {
	state := KeyAccepted
	if did.Status == http.StatusAccepted {
		state, did.Note = KeyPending, "202 Accepted; the engine has not checked the key yet"
	}
	if strings.Contains(strings.ToLower(a.header.Get("Content-Type")), "html") {
		did.Note += "; the response is HTML: is this an IndexNow endpoint?"
	}
	at := did.At.Truncate(time.Millisecond)
	if at.Before(did.At) {
		at = at.Add(time.Millisecond) // notes store milliseconds: round up, never down
	}
	edits := make(map[string]pendingURL, len(urls))
	for _, url := range urls {
		edits[url] = pendingURL{sent: at}
	}
	if e.state.Failures > 0 {
		e.o.log().Info("indexnow: batches are accepted again", "engine", e.name)
	}
	return e.commit(edits, func(st *engineState) {
		st.Failures, st.Alone, st.RetryAt, st.Trouble, st.Burned, st.Key = 0, 0, time.Time{}, "", "", state
		st.Accepted += int64(len(urls))
		st.At = did.At
		if st.Limit *= 2; st.Limit >= e.maxBatch() {
			st.Limit = 0
		}
		st.add(did)
	})
}

// refused records the refusal of a batch of one URL.
func (e *engine) refused(did Outcome, url string, a answer) (Outcome, bool, error) {
	o := e.urls[url]
	o.refused++
	o.due = did.At.Add(e.o.debounce() << o.refused)
	did.URL = clip(url, 500)
	if o.refused >= maxRefused {
		did.Dropped = true
		did.Note += "; the URL is not sent again unless its page changes"
		e.o.log().Warn("indexnow: refused URL dropped", "engine", e.name, "url", url, "answer", a.String())
		o = lately(o)
	}
	edits := map[string]pendingURL{url: o}
	if e.state.Alone+1 < maxAlone {
		return did, true, e.commit(edits, func(st *engineState) {
			st.Alone++
			st.Limit = 1
			st.add(did)
		})
	}
	// The URLs are not the cause then. Each retry costs one request, and may in
	// the end drop one URL.
	return did, false, e.failedWith(edits, did, backoff(e.name+" "+e.o.Base, e.state.Failures+1), e.state.Key,
		fmt.Sprintf("every URL is refused: %v; is the key meant for the host %s?", a, e.key.base.Host), func(st *engineState) {
			st.Alone++
			st.Limit = 1
		})
}

// keyRefused finds out why an engine says that the key is not valid.
func (e *engine) keyRefused(ctx context.Context, did Outcome, k key, a answer) error {
	right, wrong, why := e.key.check(ctx, k)
	switch {
	case wrong:
		return e.failed(did, 0, KeyUnserved, "the key is refused, since it is not served: "+why)
	case !right:
		return e.failed(did, 0, KeyRefused, fmt.Sprintf("the key is refused: %v; %s", a, why))
	}
	trouble := fmt.Sprintf("the key is burned: the engine refuses it (%v), although %s serves it; make a new key", a, e.key.url(k.Key))
	err := e.failedWith(nil, did, burnedAgain, KeyBurned, trouble, func(st *engineState) {
		st.Burned, st.Limit = k.Key, 1
	})
	if err != nil || !e.o.AutoRotate || e.o.Key != "" || e.o.now().Sub(k.Made) < rotateAgain {
		return err
	}
	if now, err := e.key.current(); err != nil || now.Key != k.Key {
		return err // it has been replaced already
	}
	if _, err := e.key.renew(); err != nil {
		return err
	}
	e.o.log().Warn("indexnow: the burned key has been replaced", "engine", e.name)
	return nil
}

// failed records that nothing was accepted, and the time of the retry: after
// pause, or after backoff if pause is zero.
func (e *engine) failed(did Outcome, pause time.Duration, k KeyState, trouble string) error {
	if pause == 0 {
		pause = backoff(e.name+" "+e.o.Base, e.state.Failures+1)
	}
	return e.failedWith(nil, did, pause, k, trouble, func(*engineState) {})
}

func (e *engine) failedWith(edits map[string]pendingURL, did Outcome, pause time.Duration, k KeyState, trouble string, change func(*engineState)) error {
	pause = min(pause, longestHint)
	if e.state.Trouble != trouble {
		e.o.log().Warn("indexnow: "+trouble, "engine", e.name, "again_in", pause.Round(time.Second))
	}
	return e.commit(edits, func(st *engineState) {
		st.Failures++
		st.RetryAt, st.Trouble, st.Key = did.At.Add(pause), trouble, k
		st.add(did)
		change(st)
	})
}

// add appends an outcome, and drops the oldest beyond maxResults.
func (st *engineState) add(o Outcome) {
	st.Results = append(append([]Outcome(nil), st.Results[max(0, len(st.Results)+1-maxResults):]...), o)
}
