// Package accesslog reads the access logs of web servers: the common and the combined format with or without
// a virtual host before them, and lines of JSON as nginx, Caddy, Apache and Traefik write them. It reads
// rotated and compressed files as one log in time order, identifies crawlers by the names they claim, and
// counts the requests of people.
//
// A log holds data from strangers. Nothing in it is trusted, every line is bounded, and a line that cannot be
// parsed is counted and never fatal.
package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxLine is how much of a line is read, in bytes. Web servers reject requests long before: a longer line is
// damage, or an attack.
const MaxLine = 64 << 10

// An Entry is one request in a log. Its byte slices are what the client sent, with the escapes of the log
// removed, so they may hold any byte. They are valid until the next entry is read.
type Entry struct {
	Host   []byte // the virtual host, without port; empty if not logged
	Addr   []byte // of the client: an IP address, or a host name if the server resolved it
	Method []byte // empty if the request was not HTTP
	Target []byte // the path with its query, as requested; the whole request if it was not HTTP

	Unix   int64 // in seconds since 1970 UTC
	Offset int   // seconds east of UTC of the log's time zone

	Status int   // 100 to 599; 0 if not logged
	Bytes  int64 // of the body as sent, or with its header in some formats; -1 if not logged

	Referer []byte // empty for none
	Agent   []byte // the user agent; empty for none

	// NoAgent says that the log has no field for the user agent, as in the common format. Then an empty Agent
	// says nothing about the client.
	NoAgent bool
}

// The errors of Parse.
var (
	errEmpty   = errors.New("an empty line")
	errAddress = errors.New("no address before the time")
	errTime    = errors.New("no [day/month/year:hour:minute:second zone]")
	errRequest = errors.New("no request in quotes, followed by a status")
	errSize    = errors.New("no size after the status")
	errJSON    = errors.New("invalid JSON")
	errFields  = errors.New("JSON without a known field for the time or the address")
	errMoment  = errors.New("invalid time")
)

// A Parser parses single lines. The zero Parser is ready. It is for one goroutine at a time.
type Parser struct {
	scratch []byte // unescaped values
	clock   clock
	json    object
}

// Parse parses one line without its end into e. On an error, e is unusable.
func (p *Parser) Parse(line []byte, e *Entry) error {
	line = bytes.TrimSuffix(line, []byte("\r"))
	line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	if len(line) == 0 {
		return errEmpty
	}
	p.scratch = p.scratch[:0]
	if line[0] == '{' {
		return p.parseJSON(line, e)
	}
	return p.parseText(line, e)
}

// Format names the format of a line, for people: "combined", "common", "JSON", and "with virtual host" if
// there is one. The entry is the result of Parse.
func Format(line []byte, e *Entry) string {
	name := "combined"
	switch {
	case len(line) > 0 && line[0] == '{':
		return "JSON"
	case e.NoAgent:
		name = "common"
	}
	if len(e.Host) > 0 {
		name += " with virtual host"
	}
	return name
}

// unescape decodes the escapes of logs and of JSON: \x22, \u0022, \n, \", \\ and so on. Anything else stays
// as it is. The result is in p.scratch.
func (p *Parser) unescape(b []byte) []byte {
	start := len(p.scratch)
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' || i+1 == len(b) {
			p.scratch = append(p.scratch, c)
			continue
		}
		i++
		c = b[i]
		if at := strings.IndexByte(`ntrbfv"\/`, c); at >= 0 {
			p.scratch = append(p.scratch, "\n\t\r\b\f\v\"\\/"[at])
			continue
		}
		digits := 0
		switch c {
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		}
		v, ok := hex(b[i+1:], digits)
		if !ok {
			p.scratch = append(p.scratch, '\\', c)
			continue
		}
		if i += digits; c == 'x' {
			p.scratch = append(p.scratch, byte(v))
			continue
		}
		if v>>10 == 0xd800>>10 && i+2 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
			if low, ok := hex(b[i+3:], 4); ok && low>>10 == 0xdc00>>10 {
				v = 0x10000 + (v&0x3ff)<<10 + low&0x3ff
				i += 6
			}
		}
		p.scratch = fmt.Appendf(p.scratch, "%c", v)
	}
	return p.scratch[start:len(p.scratch):len(p.scratch)]
}

// hex parses the first n bytes of b as a hexadecimal number.
func hex(b []byte, n int) (rune, bool) {
	if len(b) < n {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[:n]), 16, 16)
	return rune(v), err == nil
}
