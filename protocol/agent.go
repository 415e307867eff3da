package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
)

// An AgentStored is the response to an uploaded program: the digest that names
// the program in Filter.Agent (C14).
type AgentStored struct {
	Agent Digest `json:"agent"`
}

// An AgentOutput is a line of the response of parley/agents/run: the output of
// a program for one page, or the reason why it has none.
type AgentOutput struct {
	URL    string `json:"url"`
	Digest Digest `json:"hash,omitzero"`    // of the page, zero if the site does not know it
	Output []byte `json:"b64,omitempty"`    // at most MaxInline bytes; none if the page is reported without output
	Failed string `json:"failed,omitempty"` // why the program failed; empty if it did not
}

// An AgentEnd is the last line: a response without it is incomplete. After it
// the reader's cursor is To.
type AgentEnd struct {
	To    Cursor `json:"to"`
	Pages int    `json:"n"` // that the program was run on
	Told  int    `json:"told"`
}

// MaxAgentLine bounds a line of that response, in bytes: an Output in base64, and
// the other members. A reader refuses a longer line.
const MaxAgentLine = (MaxInline+2)/3*4 + 64<<10

// ParseAgentLine parses a line that is not empty. Only for the last line is end
// not nil; output is then zero. The error for a line that is too long wraps ErrLimit.
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
		return AgentOutput{}, nil, errors.New("parse agent's line: no page URL")
	case len(l.Output) > MaxInline:
		return AgentOutput{}, nil, fmt.Errorf("parse agent's line: output of %d bytes: %w", len(l.Output), ErrLimit)
	}
	return l.AgentOutput, nil, nil
}
