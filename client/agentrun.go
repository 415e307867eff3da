package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/parleyweb/parley/protocol"
)

// An AgentOutput is what a program has made of a page at its site.
type AgentOutput struct {
	URL    string          `json:"url"`
	Digest protocol.Digest `json:"hash"`   // of the page, zero if the site does not know it
	Output []byte          `json:"b64"`    // nil if it is told without
	Failed string          `json:"failed"` // why the program gave no answer; empty if it did
}

// maxAgentLine bounds an AgentOutput: a body of protocol.MaxInline bytes as base64, and the rest.
const maxAgentLine = protocol.MaxInline/3*4 + 64<<10

// RunAgent has a program that was sent before look at all pages of the site that src.Filter
// wants; the program is src.Filter.Agent. Take is called for each page that it would tell of,
// and ends everything by an error. Whoever has taken in all of it stands at the
// cursor that is returned: what changes from then on is told after it.
func RunAgent(ctx context.Context, src *Source, take func(AgentOutput) error) (protocol.Cursor, error) {
	c, err := runAgent(ctx, src, take)
	if err != nil {
		return protocol.Cursor{}, fmt.Errorf("run agent: %w", err)
	}
	return c, nil
}

func runAgent(ctx context.Context, src *Source, take func(AgentOutput) error) (none protocol.Cursor, err error) {
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
	h.Set("Accept", "application/x-ndjson")
	resp, err := f.ask(ctx, http.MethodPost, d.Agents+"/run?"+src.Filter.Query().Encode(), h, nil, bundlePatience)
	if err != nil {
		return none, err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := readLine(lines, maxAgentLine)
		if err == io.EOF {
			return none, errors.New("the answer ends before its last line")
		} else if err != nil {
			return none, err
		}
		if len(line) == 0 { // so that a slow program is not taken for a dead site
			continue
		}
		var l struct {
			AgentOutput
			To *protocol.Cursor `json:"to"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return none, fmt.Errorf("read line: %w", err)
		}
		if l.To != nil {
			return *l.To, nil
		}
		if err := take(l.AgentOutput); err != nil {
			return none, err
		}
	}
}

// readLine reads a line of at most max bytes, and returns it without its end.
func readLine(r *bufio.Reader, max int) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > max {
			return nil, fmt.Errorf("a line of more than %d bytes", max)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return bytes.TrimSpace(line), err
	}
}
