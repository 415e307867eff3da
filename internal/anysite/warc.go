//go:build linux

package anysite

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/parleyweb/parley/internal/anysite/record"
)

// A warcRecord is a record with its body.
type warcRecord struct {
	record.WARCRecord
	body []byte
}

// readWARC reads a WARC file (ISO 28500), record by record: plain, gzip members or Zstandard frames.
func readWARC(file string, b []byte) (list []warcRecord) {
	for at := 0; at < len(b); {
		r, n, err := readRecord(b[at:])
		if r != nil {
			r.File, r.Offset = file, int64(at)
			list = append(list, *r)
		}
		if err != nil {
			return append(list, warcRecord{WARCRecord: record.WARCRecord{File: file, Offset: int64(at), Err: err.Error()}})
		}
		at += n
	}
	return list
}

// readRecord reads the record at the start of b, and returns its length in b.
func readRecord(b []byte) (*warcRecord, int, error) {
	switch {
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		in := bytes.NewReader(b)
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, 0, err
		}
		z.Multistream(false)
		text, err := io.ReadAll(z)
		if err != nil {
			return nil, 0, err
		}
		r, _, err := plainRecord(text)
		return r, len(b) - in.Len(), err
	case bytes.HasPrefix(b, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		n, err := frameLength(b)
		if err != nil {
			return nil, 0, err
		}
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, 0, err
		}
		defer d.Close()
		text, err := d.DecodeAll(b[:n], nil)
		if err != nil {
			return nil, 0, err
		}
		r, _, err := plainRecord(text)
		return r, n, err
	case len(b) > 8 && b[0]&0xf0 == 0x50 && b[1] == 0x2a: // a skippable frame
		return nil, 8 + int(b[4]) + int(b[5])<<8 + int(b[6])<<16 + int(b[7])<<24, nil
	}
	return plainRecord(b)
}

// frameLength returns the length of a Zstandard frame (RFC 8878, 3.1.1).
func frameLength(b []byte) (int, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return 0, err
	}
	for at := h.HeaderSize; at+3 <= len(b); {
		block := int(b[at]) | int(b[at+1])<<8 | int(b[at+2])<<16
		size := block >> 3
		if block>>1&3 == 1 {
			size = 1
		}
		if at += 3 + size; block&1 == 1 {
			if h.HasCheckSum {
				at += 4
			}
			if at > len(b) {
				break
			}
			return at, nil
		}
	}
	return 0, io.ErrUnexpectedEOF
}

func plainRecord(b []byte) (*warcRecord, int, error) {
	in := bytes.NewReader(b)
	br := bufio.NewReader(in)
	version, err := br.ReadString('\n')
	if err != nil || !strings.HasPrefix(version, "WARC/") {
		return nil, 0, fmt.Errorf("no WARC record: %.40q", version)
	}
	h, err := textproto.NewReader(br).ReadMIMEHeader()
	if err != nil {
		return nil, 0, err
	}
	n, err := strconv.Atoi(h.Get("Content-Length"))
	if err != nil {
		return nil, 0, err
	}
	block := make([]byte, n)
	if _, err := io.ReadFull(br, block); err != nil {
		return nil, 0, err
	}
	var end [4]byte
	if _, err := io.ReadFull(br, end[:]); err != nil || string(end[:]) != "\r\n\r\n" {
		return nil, 0, fmt.Errorf("record ends with %q", end)
	}
	r := &warcRecord{WARCRecord: record.WARCRecord{Type: h.Get("WARC-Type"), URL: strings.Trim(h.Get("WARC-Target-URI"), "<>")}}
	r.At, _ = time.Parse(time.RFC3339Nano, h.Get("WARC-Date"))
	used := len(b) - in.Len() - br.Buffered()
	if r.Type == "revisit" {
		r.Sum = digestSum(h.Get("WARC-Payload-Digest"))
	}
	if r.Type == "response" && strings.HasPrefix(h.Get("Content-Type"), "application/http") {
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(block)), nil)
		if err != nil {
			return r, used, err
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil && h.Get("WARC-Truncated") == "" {
			return r, used, err
		}
		r.body = decoded(resp.Header.Get("Content-Encoding"), body)
		r.Status, r.Sum = resp.StatusCode, sum(r.body)
		if told := digestSum(h.Get("WARC-Payload-Digest")); told != "" && told != r.Sum && told != sum(body) {
			r.Err = "payload digest does not match the payload"
		}
	}
	return r, used, nil
}

// digestSum converts a digest to a Sum: sha256:HEX or BASE32, or sha-256=:BASE64:.
func digestSum(s string) string {
	if v, ok := strings.CutPrefix(s, "sha256:"); ok {
		if b, err := hex.DecodeString(v); err == nil && len(b) == 32 {
			return hex.EncodeToString(b)
		}
		if b, err := base32.StdEncoding.DecodeString(v + "===="); err == nil {
			return hex.EncodeToString(b)
		}
	}
	if v, ok := strings.CutPrefix(s, "sha-256=:"); ok {
		return base64Sum(strings.TrimSuffix(v, ":"))
	}
	return ""
}

func base64Sum(s string) string {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(b)
}
