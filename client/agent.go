package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// SendAgent sends a program to a site that runs such for its crawlers (C14), and
// returns the digest by which Filter.Agent names it. The site may know it already.
// The error is an *OfferError where the site has no door for programs.
func SendAgent(ctx context.Context, src *Source, program []byte) (protocol.Digest, error) {
	d, err := sendAgent(ctx, src, program)
	if err != nil {
		return protocol.Digest{}, fmt.Errorf("send agent: %w", err)
	}
	return d, nil
}

func sendAgent(ctx context.Context, src *Source, program []byte) (none protocol.Digest, err error) {
	f, err := newFetcher(src)
	if err != nil {
		return none, err
	}
	defer f.close()
	d, err := f.wellKnown(ctx)
	if err != nil {
		return none, err
	}
	if d.Agents == "" {
		return none, &OfferError{Base: f.base, What: "door", Asked: "agents"}
	}
	h := f.header()
	h.Set("Content-Type", "application/wasm")
	h.Set("Accept", "application/json")
	resp, err := f.ask(ctx, http.MethodPost, d.Agents, h, program, bundlePatience)
	if err != nil {
		return none, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSmall))
	if err != nil {
		return none, err
	}
	var answer struct{ Agent protocol.Digest }
	if err := json.Unmarshal(b, &answer); err != nil {
		return none, fmt.Errorf("read answer of %s: %w", d.Agents, err)
	}
	if answer.Agent != protocol.Sum(program) {
		return none, errors.New("the site names another program than the one that was sent")
	}
	return answer.Agent, nil
}
