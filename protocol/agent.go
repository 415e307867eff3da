package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An AgentKept is the answer of the door for programs: the digest by which a
// program that was sent is named, Filter.Agent (C14).
type AgentKept struct {
	Agent Digest `json:"agent"`
}

// An AgentOutput is a line of the answer of the door parley/agents/run: what
// a program makes of one page, or why it made nothing of it.
type AgentOutput struct {
	URL    string `json:"url"`
	Digest Digest `json:"hash,omitzero"`    // of the page, zero if the site does not know it
	Output []byte `json:"b64,omitempty"`    // at most MaxInline bytes; none if the page is told without
	Failed string `json:"failed,omitempty"` // why the program gave no answer; empty if it did
}

// An AgentEnd is the last line: an answer without it is not whole. Whoever has
// taken it in stands at To.
type AgentEnd struct {
	To    Cursor `json:"to"`
	Pages int    `json:"n"` // that the program was asked about
	Told  int    `json:"told"`
}

// MaxAgentLine bounds a line of that answer, in bytes: an Output in base64, and
// the rest. A reader refuses beyond it.
const MaxAgentLine = (MaxInline+2)/3*4 + 64<<10

// ParseAgentLine reads a line that is not empty: end is nil of all but the last, whose
// output says nothing. What is too long wraps ErrLimit.
func ParseAgentLine(line []byte) (output AgentOutput, end *AgentEnd, err error) {
	if len(line) > MaxAgentLine {
		return AgentOutput{}, nil, fmt.Errorf("parse agent's line: more than %d bytes: %w", MaxAgentLine, ErrLimit)
	}
	var l struct {
		AgentOutput
		AgentEnd
		To *Cursor `json:"to"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return AgentOutput{}, nil, fmt.Errorf("parse agent's line: %w", err)
	}
	switch {
	case l.To != nil:
		l.AgentEnd.To = *l.To
		return AgentOutput{}, &l.AgentEnd, nil
	case l.URL == "":
		return AgentOutput{}, nil, errors.New("parse agent's line: it names no page")
	case len(l.Output) > MaxInline:
		return AgentOutput{}, nil, fmt.Errorf("parse agent's line: output of %d bytes: %w", len(l.Output), ErrLimit)
	}
	return l.AgentOutput, nil, nil
}
