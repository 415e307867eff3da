package warc

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// isCoding reports whether a field describes how the body was sent. The body is archived without codings, and
// these fields under a name that readers ignore.
func isCoding(name string) bool {
	return strings.EqualFold(name, "Content-Encoding") || strings.EqualFold(name, "Transfer-Encoding") ||
		strings.EqualFold(name, "Content-Length")
}

const aside = "X-Crawl-"

// appendHead appends the head of a response, including the empty line. length is that of the body that
// follows, or -1 if there is none; then no length is added. Invalid names are left out, and line ends in
// values replaced.
func appendHead(b []byte, proto string, status int, h http.Header, length int, keys []string) ([]byte, []string) {
	if proto != "HTTP/1.0" {
		proto = "HTTP/1.1" // HTTP/2 has no text notation: see WARC-Protocol
	}
	b = append(b, proto...)
	b = append(b, ' ')
	s := min(max(status, 0), 999)
	b = append(b, byte('0'+s/100), byte('0'+s/10%10), byte('0'+s%10), ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, crlf...)
	keys = keys[:0]
	for k := range h {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	size := ""
	if length >= 0 {
		size = strconv.Itoa(length)
	}
	for _, k := range keys {
		if k == "" || !isToken(k) {
			continue
		}
		for _, v := range h[k] {
			if isCoding(k) {
				if length < 0 && k == "Content-Length" {
					// A response without a body keeps the length that the body would have had.
				} else if k == "Content-Length" && v == size {
					continue
				} else {
					b = append(b, aside...)
				}
			}
			b = append(b, k...)
			b = append(b, ": "...)
			b = appendValue(b, v)
			b = append(b, crlf...)
		}
	}
	if length >= 0 {
		b = append(b, "Content-Length: "...)
		b = append(b, size...)
		b = append(b, crlf...)
	}
	return append(b, crlf...), keys
}

const crlf = "\r\n"

// appendValue appends a value without characters that would end the line.
func appendValue(b []byte, v string) []byte {
	at := len(b)
	b = append(b, v...)
	for i := at; i < len(b); i++ {
		if c := b[i]; c == '\r' || c == '\n' || c == 0 {
			b[i] = ' '
		}
	}
	return b
}

// isToken reports whether s is an HTTP token, as field names are.
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// A Message is an archived response.
type Message struct {
	Proto  string
	Status int
	Header http.Header
	Body   io.Reader // as far as it was archived
}

// maxHead bounds the head of an archived response, in bytes.
const maxHead = 1 << 20

// ReadMessage parses the block of a record as an HTTP response. It parses the header and leaves the body as
// it is: the caller must decode chunks, which other writers archive.
func ReadMessage(block io.Reader) (*Message, error) {
	br := bufio.NewReaderSize(block, 4<<10)
	head, err := readLines(br, nil, maxHead)
	if err != nil {
		return nil, err
	}
	line, rest, _ := strings.Cut(string(head), "\n")
	proto, after, _ := strings.Cut(strings.TrimRight(line, "\r"), " ")
	code, _, _ := strings.Cut(strings.TrimLeft(after, " "), " ")
	status, err := strconv.Atoi(code)
	if !strings.HasPrefix(proto, "HTTP/") || err != nil || status < 0 {
		return nil, malformed("status line %.60q", line)
	}
	m := &Message{Proto: proto, Status: status, Header: http.Header{}, Body: br}
	last := ""
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\n")
		line = strings.TrimRight(line, "\r")
		if line != "" && (line[0] == ' ' || line[0] == '\t') && last != "" {
			v := m.Header[last]
			v[len(v)-1] += " " + strings.TrimSpace(line)
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue // some servers send such lines, and archives keep them
		}
		last = http.CanonicalHeaderKey(strings.TrimSpace(name))
		m.Header[last] = append(m.Header[last], strings.TrimSpace(value))
	}
	return m, nil
}

// readLines appends the lines before the empty one, which it consumes, to b.
func readLines(br *bufio.Reader, b []byte, most int) ([]byte, error) {
	for start := len(b); ; start = len(b) {
		for {
			part, err := br.ReadSlice('\n')
			b = append(b, part...)
			if len(b) > most {
				return b, malformed("more than %d bytes of header", most)
			}
			if err == nil {
				break
			}
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != bufio.ErrBufferFull {
				return b, err
			}
		}
		if len(bytes.TrimRight(b[start:], crlf)) == 0 {
			return b[:start], nil
		}
	}
}
