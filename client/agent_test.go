package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyweb/parley/client"
	"github.com/parleyweb/parley/protocol"
)

// An agent program that a busy site refuses is sent again when the site says so; one that it rejects is not.
func TestBusySiteGetsProgramAgain(t *testing.T) {
	program := []byte("\x00asm, and so on")
	var refusals, sent atomic.Int64
	status := http.StatusTooManyRequests
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/.well-known/parley" {
			json.NewEncoder(w).Encode(map[string]any{"version": 1, "base": server.URL + "/", "manifest": server.URL + "/robots.rdf", "agents": server.URL + "/parley/agents"})
			return
		}
		b, _ := io.ReadAll(r.Body)
		if sent.Add(1); refusals.Add(-1) >= 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
			return
		}
		json.NewEncoder(w).Encode(protocol.AgentStored{Agent: protocol.Sum(b)})
	}))
	t.Cleanup(server.Close)
	src := &client.Source{Base: server.URL + "/", Hurry: 10 * time.Millisecond}

	refusals.Store(3)
	if got, err := client.SendAgent(t.Context(), src, program); err != nil || got != protocol.Sum(program) || sent.Load() != 4 {
		t.Errorf("%v, %v after %d tries", got, err, sent.Load())
	}
	refusals.Store(1000)
	sent.Store(0)
	if _, err := client.SendAgent(t.Context(), src, program); err == nil || sent.Load() != 6 {
		t.Errorf("a site that is always busy: %v after %d tries", err, sent.Load())
	}
	status = http.StatusForbidden
	sent.Store(0)
	if _, err := client.SendAgent(t.Context(), src, program); err == nil || sent.Load() != 1 {
		t.Errorf("a site that rejects it: %v after %d tries", err, sent.Load())
	}
}
