package accesslog

import "bytes"

// parseText parses the common and the combined format, with or without a virtual host:
//
//	[host[:port] ]addr ident user [time] "request" status bytes[ "referer" "agent"...]
func (p *Parser) parseText(b []byte, e *Entry) error {
	// A user name, which the client sends, may hold brackets, so only a valid time ends the search.
	at, unix, offset := 0, int64(0), 0
	for {
		i := bytes.IndexByte(b[at:], '[')
		if i < 0 || at+i+timeLen+2 > len(b) {
			return errTime
		}
		at += i + 1
		if b[at+timeLen] != ']' {
			continue
		}
		var ok bool
		if unix, offset, ok = p.clock.read(b[at : at+timeLen]); ok {
			break
		}
	}
	host, addr := who(b[:at-1])
	if len(addr) == 0 {
		return errAddress
	}
	request, rest, ok := p.request(b[at+timeLen+1:])
	if !ok {
		return errRequest
	}
	status := int(rest[0]-'0')*100 + int(rest[1]-'0')*10 + int(rest[2]-'0')
	size, rest, ok := sizeOf(rest[4:])
	if !ok {
		return errSize
	}
	*e = Entry{Host: host, Addr: addr, Unix: unix, Offset: offset, Status: status, Bytes: size, NoAgent: true}
	e.Method, e.Target = splitRequest(request)
	if referer, rest, ok := p.quoted(rest); ok {
		e.Referer = said(referer)
		agent, _, ok := p.quoted(rest)
		if !ok && len(rest) > 2 && rest[0] == ' ' && rest[1] == '"' {
			agent, ok = rest[2:], true // the line was truncated
		}
		if ok {
			e.Agent, e.NoAgent = said(agent), false
		}
	}
	return nil
}

// who returns the virtual host and the address from the part before the time.
func who(b []byte) (host, addr []byte) {
	first, rest := word(b)
	second, rest := word(rest)
	switch {
	case len(second) == 0 || len(second) == 1 && second[0] == '-':
		return nil, withoutPort(first)
	case first[0] == '[' || bytes.Count(first, []byte(":")) == 1:
		return withoutPort(first), withoutPort(second)
	case bytes.ContainsAny(second, ".:") && bytes.Count(bytes.TrimSpace(rest), []byte(" ")) == 1 && isAddress(second):
		return first, second
	}
	return nil, first
}

// isAddress reports whether b has only characters of an IP address.
func isAddress(b []byte) bool {
	for _, c := range b {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' || c == '.' || c == ':') {
			return false
		}
	}
	return true
}

// withoutPort removes the port from host:port and [address]:port.
func withoutPort(b []byte) []byte {
	if len(b) > 0 && b[0] == '[' {
		if i := bytes.IndexByte(b, ']'); i > 0 {
			return b[1:i]
		}
		return b
	}
	if i := bytes.IndexByte(b, ':'); i >= 0 && bytes.IndexByte(b[i+1:], ':') < 0 {
		return b[:i]
	}
	return b
}

func word(b []byte) (w, rest []byte) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i:]
	}
	return b, nil
}

// request parses ` "request" status `. A quote after an odd number of backslashes is escaped, and one without
// a status after it is part of the request: some servers do not escape.
func (p *Parser) request(b []byte) (request, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != ' ' || b[1] != '"' {
		return nil, nil, false
	}
	b = b[2:]
	end := -1
	for at := 0; ; at++ {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			break
		}
		at += i
		if rest := b[at+1:]; len(rest) >= 5 && rest[0] == ' ' && rest[4] == ' ' && '1' <= rest[1] && rest[1] <= '5' &&
			'0' <= rest[2] && rest[2] <= '9' && '0' <= rest[3] && rest[3] <= '9' {
			if !escaped(b, at) {
				end = at
				break
			} else if end < 0 {
				end = at // unless a better one follows
			}
		}
	}
	if end < 0 {
		return nil, nil, false
	}
	request = b[:end]
	if bytes.IndexByte(request, '\\') >= 0 {
		request = p.unescape(request)
	}
	return request, b[end+2:], true
}

// escaped reports whether an odd number of backslashes precedes a position.
func escaped(b []byte, at int) bool {
	n := 0
	for n < at && b[at-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// quoted parses ` "..."`, and decodes its escapes.
func (p *Parser) quoted(b []byte) (in, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != ' ' {
		return nil, nil, false
	}
	in, esc, rest, ok := quotation(b[1:])
	if esc {
		in = p.unescape(in)
	}
	return in, rest, ok
}

// quotation parses "...", and reports whether it has escapes.
func quotation(b []byte) (in []byte, esc bool, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, false, nil, false
	}
	b = b[1:]
	for at := 0; ; at++ {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return nil, false, nil, false
		}
		at += i
		if !escaped(b, at) {
			return b[:at], bytes.IndexByte(b[:at], '\\') >= 0, b[at+1:], true
		}
	}
}

// said returns nil for "-", which logs write for an empty value.
func said(b []byte) []byte {
	if len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}

// sizeOf parses a number of bytes; "-" is 0.
func sizeOf(b []byte) (n int64, rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '-' {
		return 0, b[1:], true
	}
	i := 0
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		if n = n*10 + int64(b[i]-'0'); n > maxBytes {
			return 0, nil, false
		}
	}
	return n, b[i:], i > 0 && (i == len(b) || b[i] == ' ')
}

// maxBytes bounds the size of a response, so that sums do not overflow.
const maxBytes = 1 << 50

// splitRequest splits a request line. A request that is not HTTP has no method.
func splitRequest(b []byte) (method, target []byte) {
	i := bytes.IndexByte(b, ' ')
	if i <= 0 || !isMethod(b[:i]) {
		return nil, b
	}
	method, target = b[:i], b[i+1:]
	if j := bytes.LastIndexByte(target, ' '); j >= 0 && bytes.HasPrefix(target[j+1:], []byte("HTTP/")) {
		target = target[:j]
	}
	return method, target
}

// isMethod reports whether b may be a method: up to 20 capital letters, "-" or "_".
func isMethod(b []byte) bool {
	if len(b) > 20 {
		return false
	}
	for _, c := range b {
		if c < 'A' || c > 'Z' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
