package warctest_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/sitetest/warctest"
)

func TestValidateIsStrict(t *testing.T) {
	if r, err := warctest.Validate(strings.NewReader(warctest.Record)); err != nil || r.Records != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"WARC/1.1\r\n", "WARC/1.1\n", "does not end in CRLF"},
		{"WARC/1.1", "WARC/2.0", "version"},
		{"WARC/1.1", "warc/1.1", "first line"},
		{"WARC-Type: response\r\n", "", "type"},
		{"WARC-Type: response", "WARC-Type: reply", "type"},
		{"<urn:uuid:0b1f6e5e-6d0a-4c1d-9d35-1a2b3c4d5e6f>", "urn:uuid:0b1f6e5e-6d0a-4c1d-9d35-1a2b3c4d5e6f", "WARC-Record-ID"},
		{"WARC-Date: 2026-03-01T12:00:00.123Z\r\n", "", "no WARC-Date"},
		{"12:00:00.123Z", "12:00:00+01:00", "WARC-Date"},
		{"12:00:00.123Z", "12:00:00.1234567891Z", "WARC-Date"},
		{"WARC-Target-URI: https://example.org/\r\n", "", "no WARC-Target-URI"},
		{"https://example.org/", "<https://example.org/>", "WARC-Target-URI"},
		{"sha256:b94", "sha256:c94", "not match the payload"},
		{"sha256:b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9", "b94", "WARC-Payload-Digest"},
		{"WARC-IP-Address: 192.0.2.1", "WARC-IP-Address: 192.0.2.256", "WARC-IP-Address"},
		{"WARC-IP-Address: 192.0.2.1", "WARC-Filename: x", "WARC-Filename not allowed in a record"},
		{"WARC-IP-Address: 192.0.2.1", "WARC-Profile: http://x/", "WARC-Profile not allowed in a record"},
		{"WARC-IP-Address: 192.0.2.1", "WARC-Refers-To: <urn:x:y>", "WARC-Refers-To not allowed in a record"},
		{"WARC-IP-Address: 192.0.2.1", "WARC-Warcinfo-ID: <urn:x:y>", "names no record"},
		{"WARC-IP-Address: 192.0.2.1", "WARC-Date: 2026-03-01T12:00:00Z", "twice"},
		{"WARC-IP-Address: 192.0.2.1", "WARC Odd: 1", "field name"},
		{"WARC-IP-Address: 192.0.2.1", "WARC-Block-Digest: sha1:2ASS7ZUZY6ND6CCHXETFVJDENAWF7KQ2", "not match the block"},
		{"Content-Type: application/http;msgtype=response\r\n", "", "no Content-Type"},
		{"application/http;msgtype=response", "text/html", "HTTP response has"},
		{"Content-Length: 50", "Content-Length: 49", "followed by"},
		{"Content-Length: 50", "Content-Length: 51", "unexpected EOF"},
		{"Content-Length: 50", "Content-Length: 510", "unexpected EOF"},
		{"Content-Length: 50", "Content-Length: -1", "content-length"},
		{"world\r\n\r\n", "world\r\n", "unexpected EOF"},
		{"world\r\n\r\n", "world\r\n\r\n\r\n", "record at 419"},
		{"Content-Length: 11", "Content-Length: 12", "the body has 11"},
		{"HTTP/1.1 200", "HTTP/1.1 000", "status"},
		{"HTTP/1.1 200", "HTTQ/1.1 200", "not an HTTP response"},
	} {
		spoiled := strings.Replace(warctest.Record, c.old, c.new, 1)
		if spoiled == warctest.Record {
			t.Fatalf("%q is not in the record", c.old)
		}
		if _, err := warctest.Validate(strings.NewReader(spoiled)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := warctest.Validate(strings.NewReader(warctest.Record + warctest.Record)); err == nil || !strings.Contains(err.Error(), "same id as") {
		t.Errorf("one id twice: %v", err)
	}
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	io.WriteString(g, warctest.Record+strings.Replace(warctest.Record, "0b1f", "0b2f", 1))
	g.Close()
	if _, err := warctest.Validate(&z); err == nil || !strings.Contains(err.Error(), "after the record") {
		t.Errorf("two records in one member: %v", err)
	}
}
