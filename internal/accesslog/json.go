package accesslog

import (
	"bytes"
	"math"
	"strconv"
)

// The fields of a JSON object that we look for. Their names differ between logs: see fieldOf.
const (
	addrField = iota
	hostField
	timeField
	requestField // the request line, or only the path if the other parts have fields of their own
	methodField
	targetField
	queryField
	statusField
	bytesField
	refererField
	agentField
	fields
)

// The bounds of a JSON object.
const (
	maxDepth = 8
	maxPath  = 128 // bytes of the name of a field, with those of the objects around it
)

// An object holds the values found so far, with the ranks of their names.
type object struct {
	value [fields][]byte
	rank  [fields]int // 0 for not found; more is better
	esc   [fields]bool
	path  []byte // of the current field, in lower case
}

// fieldOf returns the field of a name, with dots between the names of nested objects: of nginx (whose names
// are its variables), Caddy, Traefik, the Elastic Common Schema, and usual ones in Apache's LogFormat. If a
// line has several for one field, the one of the highest rank counts.
func fieldOf(path []byte) (field, rank int) {
	switch string(path) {
	case "request.client_ip", "client_ip", "clientip", "clienthost", "client.ip":
		return addrField, 3 // behind a trusted proxy, this is the client
	case "remote_addr", "remote_ip", "request.remote_ip", "remoteip", "source.ip", "source.address", "client", "ip", "addr", "address", "httprequest.remoteip":
		return addrField, 2
	case "request.remote_addr", "clientaddr", "client.address", "remote_host", "remotehost", "host.ip", "h", "remote":
		return addrField, 1
	case "request.host", "requesthost", "http_host", "server_name", "vhost", "virtual_host", "url.domain":
		return hostField, 2
	case "host", "server", "domain":
		return hostField, 1
	case "time_iso8601", "@timestamp", "msec", "ts", "startutc":
		return timeField, 3
	case "time_local", "timestamp", "time", "startlocal", "date", "datetime", "t":
		return timeField, 2
	case "request", "request_line", "requestline", "http_request", "req", "message":
		return requestField, 1
	case "request_method", "request.method", "requestmethod", "method", "http_method", "verb", "http.request.method", "httprequest.requestmethod":
		return methodField, 1
	case "request_uri", "request.uri", "requestpath", "url.original", "httprequest.requesturl":
		return targetField, 3 // with the query
	case "uri", "url", "target", "request.url":
		return targetField, 2
	case "path", "request_path", "uri_path", "url.path", "document_uri":
		return targetField, 1
	case "query", "query_string", "args", "url.query":
		return queryField, 1
	case "status", "downstreamstatus", "http.response.status_code", "httprequest.status":
		return statusField, 2
	case "status_code", "statuscode", "response", "response_code", "resp_status", "http_status", "code", "originstatus":
		return statusField, 1
	case "body_bytes_sent", "size", "downstreamcontentsize", "http.response.body.bytes":
		return bytesField, 3
	case "bytes_sent", "bytes", "response_size", "response_length", "bytessent", "http.response.bytes", "httprequest.responsesize":
		return bytesField, 2
	case "length", "content_length":
		return bytesField, 1
	case "http_referer", "request.headers.referer", "http_referrer", "request_referer", "http.request.referrer", "httprequest.referer":
		return refererField, 2
	case "referer", "referrer":
		return refererField, 1
	case "http_user_agent", "request.headers.user-agent", "request_user-agent", "user_agent.original", "httprequest.useragent":
		return agentField, 2
	case "user_agent", "useragent", "user-agent", "agent", "headers.user-agent":
		return agentField, 1
	}
	return 0, 0
}

// parseJSON parses a line that is one JSON object.
func (p *Parser) parseJSON(line []byte, e *Entry) error {
	o := &p.json
	*o = object{path: o.path[:0]}
	rest, ok := o.group(line, 0, true)
	if !ok || len(bytes.TrimLeft(rest, " \t")) > 0 {
		return errJSON
	}
	if o.rank[addrField] == 0 || o.rank[timeField] == 0 {
		return errFields
	}
	*e = Entry{Status: int(o.number(statusField, 599)), Bytes: -1, NoAgent: o.rank[agentField] == 0}
	if e.Status < 100 {
		e.Status = 0
	}
	if n := o.number(bytesField, maxBytes); o.rank[bytesField] > 0 && n >= 0 {
		e.Bytes = n
	}
	e.Addr, e.Host = withoutPort(p.text(addrField)), withoutPort(p.text(hostField))
	if len(e.Addr) == 0 {
		return errFields
	}
	if e.Unix, e.Offset, ok = p.moment(p.text(timeField)); !ok {
		return errMoment
	}
	e.Referer, e.Agent = p.text(refererField), p.text(agentField)
	if request := p.text(requestField); o.rank[targetField] == 0 {
		e.Method, e.Target = splitRequest(request)
	} else {
		e.Target = p.text(targetField)
		e.Method, _ = splitRequest(request)
	}
	if method := p.text(methodField); len(method) > 0 && isMethod(method) {
		e.Method = method
	}
	if query := p.text(queryField); len(query) > 0 && len(e.Target) > 0 && bytes.IndexByte(e.Target, '?') < 0 {
		start := len(p.scratch)
		p.scratch = append(p.scratch, e.Target...)
		if query[0] != '?' {
			p.scratch = append(p.scratch, '?')
		}
		p.scratch = append(p.scratch, query...)
		e.Target = p.scratch[start:]
	}
	return nil
}

// text returns the unescaped value of a field; "-" is empty.
func (p *Parser) text(field int) []byte {
	if v := p.json.value[field]; !p.json.esc[field] {
		return said(v)
	} else {
		return said(p.unescape(v))
	}
}

// number returns the value of a field as a number of 0 to most; -1 if it is not one.
func (o *object) number(field int, most int64) int64 {
	v := o.value[field]
	if i := bytes.IndexByte(v, '.'); i > 0 {
		v = v[:i]
	}
	if len(v) == 0 || len(v) > 18 {
		return -1
	}
	n := int64(0)
	for _, c := range v {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	if n > most {
		return -1
	}
	return n
}

// moment parses a time in any of the forms that logs have.
func (p *Parser) moment(b []byte) (unix int64, offset int, ok bool) {
	if len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']' {
		b = b[1 : len(b)-1]
	}
	switch {
	case len(b) == timeLen && b[2] == '/':
		return p.clock.read(b)
	case len(b) >= 19 && b[4] == '-':
		return readISO(b)
	}
	unix, ok = readNumber(b)
	return unix, 0, ok
}

// exponentOf parses the part of a number after its integer part: a fraction, and an exponent.
func exponentOf(b []byte) (exponent int, ok bool) {
	if b[0] == '.' {
		for b = b[1:]; len(b) > 0 && '0' <= b[0] && b[0] <= '9'; b = b[1:] {
		}
	}
	if len(b) == 0 {
		return 0, true
	}
	if b[0]|0x20 != 'e' || len(b) > 4 {
		return 0, false
	}
	exponent, err := strconv.Atoi(string(b[1:]))
	return exponent, err == nil
}

// readExponent parses a number such as 1.431857103123e+09.
func readExponent(b []byte) (unix int64, ok bool) {
	if len(b) > 32 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(f >= 0 && f < math.MaxInt64/2) {
		return 0, false
	}
	for f >= 1e11 {
		f /= 1000
	}
	return int64(f), true
}

// group parses an object, and keeps the known fields, or an array, whose first value counts. It is strict in
// structure and lenient in strings and numbers: nginx writes \x22 into strings.
func (o *object) group(b []byte, depth int, keep bool) (rest []byte, ok bool) {
	if depth == maxDepth {
		return nil, false
	}
	end := b[0] + 2 // '}' of '{', ']' of '['
	if b = space(b[1:]); len(b) > 0 && b[0] == end {
		return b[1:], true
	}
	for outer := len(o.path); ; keep = false {
		if end == '}' {
			if b, ok = o.key(b); !ok {
				return nil, false
			}
			keep = true
		}
		b, ok = o.valueOf(b, depth, keep)
		o.path = o.path[:outer]
		if b = space(b); !ok || len(b) == 0 {
			return nil, false
		}
		switch b[0] {
		case end:
			return b[1:], true
		case ',':
			b = space(b[1:])
		default:
			return nil, false
		}
	}
}

// key parses the name of a field with its colon, and adds it to the path.
func (o *object) key(b []byte) (rest []byte, ok bool) {
	key, _, rest, ok := quotation(b)
	if rest = space(rest); !ok || len(rest) == 0 || rest[0] != ':' {
		return nil, false
	}
	if len(o.path) > 0 {
		o.path = append(o.path, '.')
	}
	for _, c := range key[:min(len(key), maxPath)] {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		o.path = append(o.path, c)
	}
	return space(rest[1:]), true
}

// valueOf parses a value, and keeps it if keep is set and the path is a known field.
func (o *object) valueOf(b []byte, depth int, keep bool) (rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	switch b[0] {
	case '{', '[':
		return o.group(b, depth+1, keep)
	}
	var value []byte
	var esc bool
	if b[0] == '"' {
		if value, esc, rest, ok = quotation(b); !ok {
			return nil, false
		}
	} else {
		i := 0
		for i < len(b) && (b[i] == '+' || b[i] == '-' || b[i] == '.' || '0' <= b[i] && b[i] <= '9' || 'a' <= b[i]|0x20 && b[i]|0x20 <= 'z') {
			i++
		}
		if i == 0 {
			return nil, false
		}
		value, rest = b[:i], b[i:]
		if string(value) == "null" {
			value = nil
		}
	}
	if keep && len(o.path) <= maxPath {
		if f, rank := fieldOf(o.path); rank > o.rank[f] {
			o.value[f], o.esc[f], o.rank[f] = value, esc, rank
		}
	}
	return rest, true
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}
