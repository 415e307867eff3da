package doors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
)

const (
	mostAgentPage = 4 << 20 // bytes of a page that is passed to programs

	// agentsTime is how long a program judges changes for one message, which then
	// ends; agentTurn is how long one change waits for the program, including the wait for
	// other programs, before it is sent without its output.
	agentsTime = 3 * time.Second
	agentTurn  = 10 * time.Second
)

// askAgent returns the program's answer for a change that is to be sent to its
// reader. If the program fails, the change is sent without an output.
func (s *selection) askAgent(ctx context.Context, c *protocol.Change) (protocol.Body, bool, error) {
	if c.Op == protocol.Delete {
		return protocol.Body{}, true, nil
	}
	v, err := s.askedAgent(ctx, c)
	switch {
	case ctx.Err() != nil:
		return protocol.Body{}, false, ctx.Err()
	case err != nil:
		s.readers.logger.Debug("agent failed: the change is sent without its output", "agent", s.filter.Agent.String(), "url", c.Item.URL, "err", err)
		return protocol.Body{}, true, nil
	case !v.Tell && c.Op != protocol.Move:
		return protocol.Body{}, false, nil
	case v.Output == nil || len(v.Output) > protocol.MaxInline:
		return protocol.Body{}, true, nil
	}
	return protocol.Body{Coding: protocol.CodingAgent, Bytes: v.Output, Length: int64(len(v.Output))}, true, nil
}

// askedAgent calls the program with a change, and the page before and after it.
func (s *selection) askedAgent(ctx context.Context, c *protocol.Change) (caller.Verdict, error) {
	page, err := s.readers.agentPage(ctx, c.Item)
	if err != nil {
		return caller.Verdict{}, err
	}
	was := c.Item
	was.Digest, was.Length = c.Prev, -1
	if c.Op == protocol.Move && c.Prev != c.Item.Digest {
		was.URL = c.From // where no page is any more, unless another has taken the URL
	}
	before, err := s.readers.agentPage(ctx, was)
	if err != nil {
		return caller.Verdict{}, err
	}
	ctx, stop := context.WithTimeout(ctx, agentTurn)
	defer stop()
	return s.readers.clients.Agents.Run(ctx, s.caller.Name, s.filter.Agent, c, page, before)
}

// agentPage returns a version of a page for a program, nil if it is not available.
func (rs *readers) agentPage(ctx context.Context, item protocol.Item) ([]byte, error) {
	if item.Digest.IsZero() || rs.pages == nil {
		return nil, nil
	}
	page, err := rs.pages.Version(ctx, &item, mostAgentPage)
	switch {
	case errors.Is(err, content.ErrNoVersion):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read page %s: %w", item.URL, err)
	case page == nil:
		return []byte{}, nil // an empty page is a page
	}
	return page, nil
}
