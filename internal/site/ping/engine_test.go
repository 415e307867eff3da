package ping_test

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A searchEngine is the receiving side of IndexNow, and strict about it.
type searchEngine struct {
	t     testing.TB
	w     *world
	never map[string]bool // URLs that it always rejects

	// script has the next answers, one for each request; when it is empty the answer is 200. If mood is not
	// nil, it is called instead.
	mu     sync.Mutex
	script []string
	mood   func() string
	got    []batch
	ends   []int           // indexes of the last ones before a sender was killed
	keys   map[string]bool // burned
	kill   func()          // ends the sender's process, in the mood "kill"
}

// A batch is one request that an engine got.
type batch struct {
	n     int // its place among all requests
	at    time.Time
	told  int // changes in the journal by then
	urls  []string
	mood  string
	taken bool // the engine has it, regardless of its answer
	sure  bool // and the answer said so
	key   string
}

// newEngine puts an engine on a host of the world.
func newEngine(w *world, host string) *searchEngine {
	e := &searchEngine{t: w.t, w: w, never: make(map[string]bool), keys: make(map[string]bool)}
	w.host(host, e)
	return e
}

// moods of an engine: its answer, and whether it accepts the batch although the answer does not say so.
var moods = []string{
	"200", "202", "400", "403", "422", "429", "429 seconds", "429 date", "500", "500 taken", "503", "503 seconds",
	"hang", "hang taken", "cut", "cut taken", "html", "huge", "slow body", "slow", "redirect", "refuse to connect",
}

func (e *searchEngine) next() string {
	if e.mood != nil {
		return e.mood()
	}
	if len(e.script) == 0 {
		return "200"
	}
	s := e.script[0]
	e.script = e.script[1:]
	return s
}

func (e *searchEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	mood := e.next()
	e.mu.Unlock()
	if mood == "refuse to connect" {
		return dialError()
	}
	b := batch{at: time.Now(), mood: mood}
	e.w.mu.Lock()
	b.told = e.w.told
	e.w.mu.Unlock()
	status, reason := e.read(r, &b)
	if status == 0 && slices.ContainsFunc(b.urls, func(u string) bool { return e.never[u] }) {
		status, reason = []int{400, 422}[len(b.urls)%2], "a URL of this list is none of yours"
	}
	if status == 0 && e.keys[b.key] {
		status, reason = 403, `{"errorCode":"UserForbiddedToAccessSite"}`
	}
	if status != 0 {
		b.mood = fmt.Sprint(status)
		e.note(b)
		return response(r, status, reason), nil
	}
	word, rest, _ := strings.Cut(mood, " ")
	b.taken = rest == "taken"
	switch word {
	case "200", "202", "html", "huge", "slow", "on":
		b.taken, b.sure = true, true
	}
	if mood == "kill" { // the batch is accepted, and the sender never learns it
		b.taken = true
		e.note(b)
		e.kill()
		return response(r, 200, ""), nil
	}
	e.note(b)
	ctx := r.Context()
	switch mood {
	case "html":
		return response(r, 200, "<!DOCTYPE html><title>Parked</title>", "Content-Type", "text/html"), nil
	case "huge":
		resp := response(r, 200, "")
		resp.Body, resp.ContentLength = &endless{}, -1
		return resp, nil
	case "slow body":
		resp := response(r, 200, "")
		resp.Body, resp.ContentLength = hanging{ctx}, -1
		return resp, nil
	case "on the way":
		time.Sleep(3 * time.Second)
		return response(r, 200, ""), nil
	case "slow":
		select {
		case <-time.After(20 * time.Second):
			return response(r, 200, ""), nil
		case <-ctx.Done():
			e.mu.Lock()
			e.got[len(e.got)-1].sure = false // the sender had timed out
			e.mu.Unlock()
			return nil, ctx.Err()
		}
	case "hang", "hang taken":
		<-ctx.Done()
		return nil, ctx.Err()
	case "cut", "cut taken":
		return nil, io.ErrUnexpectedEOF
	case "redirect":
		return response(r, 307, "", "Location", "https://elsewhere.example/indexnow"), nil
	case "429 seconds", "503 seconds":
		return response(r, map[string]int{"429": 429, "503": 503}[word], "", "Retry-After", "7200"), nil
	case "429 date":
		return response(r, 429, "", "Retry-After", time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat)), nil
	}
	var code int
	if _, err := fmt.Sscan(word, &code); err != nil {
		return nil, fmt.Errorf("mood %q: %w", mood, err)
	}
	return response(r, code, "mood"), nil
}

func dialError() (*http.Response, error) { return (&world{}).RoundTrip(mustRequest("GET", base)) }

func (e *searchEngine) note(b batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b.n = len(e.got)
	e.got = append(e.got, b)
}

// read checks a request against the specification. A violation that no sender may commit fails the test; a
// request that an engine would reject gets a status.
func (e *searchEngine) read(r *http.Request, b *batch) (int, string) {
	t := e.t
	if r.Method != http.MethodPost {
		t.Errorf("engine got a %s", r.Method)
	}
	if ct, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || ct != "application/json" {
		t.Errorf("engine got Content-Type %q", r.Header.Get("Content-Type"))
	}
	if r.Header.Get("User-Agent") == "" {
		t.Error("the request has no User-Agent of the sender")
	}
	var msg struct {
		Host, Key, KeyLocation string
		URLList                []string
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&msg); err != nil {
		t.Errorf("the engine got no JSON: %v", err)
	}
	b.urls, b.key = msg.URLList, msg.Key
	seen := make(map[string]bool)
	for _, u := range msg.URLList {
		if seen[u] {
			t.Errorf("%s is in a batch twice", u)
		}
		seen[u] = true
	}
	if len(msg.URLList) == 0 || len(msg.URLList) > 10_000 {
		t.Errorf("batch of %d URLs", len(msg.URLList))
	}
	if n := len(msg.Key); n < 8 || n > 128 {
		t.Errorf("key of %d bytes", n)
	}
	where := msg.KeyLocation
	if where == "" {
		where = "https://" + msg.Host + "/" + msg.Key + ".txt"
	}
	below := where[:strings.LastIndexByte(where, '/')+1]
	for _, u := range msg.URLList {
		if !strings.HasPrefix(u, below) || hostOf(u) != msg.Host {
			return 422, u + " is not of the host, or not below the key"
		}
	}
	resp, err := e.w.RoundTrip(mustRequest("GET", where))
	if err != nil {
		return 403, "no key: " + err.Error()
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || string(text) != msg.Key {
		return 403, "the key is not there"
	}
	return 0, ""
}

// taken returns the accepted batches, one line each.
func (e *searchEngine) taken() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []string
	for _, b := range e.got {
		if b.taken {
			list = append(list, short(b.urls))
		}
	}
	return list
}

// answered returns the moods of all requests, in order.
func (e *searchEngine) answered() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []string
	for _, b := range e.got {
		list = append(list, b.mood)
	}
	return strings.Join(list, ", ")
}

func (e *searchEngine) batches() []batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

func (e *searchEngine) will(script ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.script = script
}

// be sets the engine's mood; nil means the script.
func (e *searchEngine) be(mood func() string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mood = mood
}

// wantTaken checks the accepted batches, and forgets them.
func (e *searchEngine) wantTaken(want ...string) {
	e.t.Helper()
	if got := e.taken(); !slices.Equal(got, want) {
		e.t.Errorf("engine has batches %q, want %q", got, want)
	}
	e.mu.Lock()
	e.got = nil
	e.mu.Unlock()
}

func mustRequest(method, url string) *http.Request {
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		panic(err)
	}
	return r
}
