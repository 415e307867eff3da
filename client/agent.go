package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
)

// SendAgent sends a program to a site that runs programs for its crawlers (C14), and returns the digest that
// names it in Filter.Agent. The site may have it already. A site that is busy (429, 503) is retried five
// times, after the delay that it asks for. The error is an *OfferError where the site has no door for
// programs.
func SendAgent(ctx context.Context, src *Source, program []byte) (protocol.Digest, error) {
	digest := protocol.Sum(program)
	err := askAgents(ctx, src, "", program, func(answer io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(answer, maxSmall))
		if err != nil {
			return err
		}
		var kept protocol.AgentStored
		if err := json.Unmarshal(b, &kept); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if kept.Agent != digest {
			return errors.New("the site confirmed the digest of another program")
		}
		return nil
	})
	if err != nil {
		return protocol.Digest{}, fmt.Errorf("send agent: %w", err)
	}
	return digest, nil
}

// RunAgent runs a program that was sent before, src.Filter.Agent, on all pages of the site that src.Filter
// selects. It calls take for each page that the program reports; an error of take ends the run. The returned
// cursor is the caller's position after all of it: later changes come after that cursor.
func RunAgent(ctx context.Context, src *Source, take func(protocol.AgentOutput) error) (at protocol.Cursor, err error) {
	err = askAgents(ctx, src, "/run?"+src.Filter.Query().Encode(), nil, func(answer io.Reader) error {
		lines := bufio.NewScanner(answer)
		lines.Buffer(nil, protocol.MaxAgentLine+2)
		for lines.Scan() {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 { // a keep-alive of a slow program
				continue
			}
			output, end, err := protocol.ParseAgentLine(line)
			if err != nil {
				return cmp.Or(lines.Err(), err) // the line may have been cut
			}
			if end != nil {
				at = end.To
				return nil
			}
			if err := take(output); err != nil {
				return err
			}
		}
		return cmp.Or(lines.Err(), errors.New("response truncated: its last line is missing"))
	})
	if err != nil {
		return protocol.Cursor{}, fmt.Errorf("run agent: %w", err)
	}
	return at, nil
}

// askAgents sends a POST to the site's door for programs, or to a URL below it, and passes the answer to
// read.
func askAgents(ctx context.Context, src *Source, below string, program []byte, read func(io.Reader) error) error {
	f, err := newFetcher(src)
	if err != nil {
		return err
	}
	defer f.close()
	d, err := f.wellKnown(ctx)
	if err != nil {
		return err
	}
	if d.Agents == "" {
		return &OfferError{Base: f.base, What: "door", Asked: "agents"}
	}
	h := f.header()
	h.Set("Accept", "application/json, application/x-ndjson")
	if program != nil {
		h.Set("Content-Type", "application/wasm")
	}
	for try := 0; ; try++ {
		resp, err := f.ask(ctx, http.MethodPost, d.Agents+below, h, program, agentStart)
		if err == nil {
			defer resp.Body.Close()
			return read(resp.Body)
		}
		wait, ok := later(err, try)
		if !ok {
			return err
		}
		f.src.Log.Info("the site is too busy to run a program now", "err", err, "again", wait)
		if err := pause.Sleep(ctx, f.hurried(wait)); err != nil {
			return err
		}
	}
}

// How often, and for how long each time, a busy site is retried; and how long the site may take to begin its answer, since
// it compiles a program first.
const (
	agentTries   = 6
	agentPatient = 10 * time.Minute
	agentStart   = 4 * time.Minute
)

// later returns how long to wait before retrying a busy site, and false if err does not call for a retry.
func later(err error, try int) (time.Duration, bool) {
	status := statusOf(err)
	if try+1 >= agentTries || status == nil ||
		status.Status != http.StatusTooManyRequests && status.Status != http.StatusServiceUnavailable || status.RetryAfter > agentPatient {
		return 0, false
	}
	wait := max(firstWait<<try, status.RetryAfter)
	return wait + rand.N(wait/5+1), true
}
