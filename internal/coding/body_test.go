package coding_test

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
)

// bare is deflate without the header and the checksum of zlib, as some servers send it.
const bare = "bare deflate"

func packed(t testing.TB, name, text string) []byte {
	var b bytes.Buffer
	w := coding.NewGzip(&b)
	switch name {
	case "zstd":
		w = coding.NewZstd(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case bare:
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	}
	must.Get(io.WriteString(w, text))
	must.OK(t, w.Close())
	return b.Bytes()
}

// One Body reads many, also after broken ones.
func TestBodies(t *testing.T) {
	text := strings.Repeat("what a page says, ", 5000)
	var d coding.Body
	for range 2 {
		for _, name := range []string{"gzip", "zstd", "deflate", bare} {
			whole := packed(t, name, text)
			name = strings.TrimPrefix(name, "bare ")
			for _, c := range []struct {
				what string
				body []byte
				good bool
			}{
				{"whole", whole, true},
				{"two in a row", append(bytes.Clone(whole), packed(t, name, "")...), true},
				{"cut", whole[:len(whole)/2], false},
				{"cut in the header", whole[:5], false},
				{"not coded", []byte(text), true},
				{"something else after it", append(bytes.Clone(whole), "\r\n\r\n"...), name != "zstd"},
			} {
				err := d.Open(name, c.body)
				var got []byte
				if err == nil {
					got, err = io.ReadAll(&d)
				}
				if good := err == nil && string(got) == text; good != c.good {
					t.Errorf("%s, %s: %d bytes, %v", name, c.what, len(got), err)
				}
			}
		}
	}
	if err := d.Open("br", nil); err == nil {
		t.Error("br is accepted")
	}
}

// Text that is declared as deflate, and is not, is often the beginning of a deflate stream.
func TestTextIsNotDeflate(t *testing.T) {
	var d coding.Body
	for _, text := range []string{"", "x", "<", "\n\n<html>", `{"a":1}`, "[]", "README for the module\n", "Reviewing patches\tétude", "-1"} {
		err := d.Open("deflate", []byte(text))
		got, err2 := io.ReadAll(&d)
		if err != nil || err2 != nil || string(got) != text {
			t.Errorf("%q: %q, %v, %v", text, got, err, err2)
		}
	}
	for n := range 300 { // short streams are none the less read
		text := strings.Repeat("page ", n/5) + "of a s"[:n%5+1]
		err := d.Open("deflate", packed(t, bare, text))
		got, err2 := io.ReadAll(&d)
		if err != nil || err2 != nil || string(got) != text {
			t.Errorf("%q: %q, %v, %v", text, got, err, err2)
		}
	}
}

func FuzzBody(f *testing.F) {
	f.Add(packed(f, "gzip", "hello, hello, hello"))
	f.Add(packed(f, "zstd", "hello, hello, hello"))
	f.Add(packed(f, "deflate", "hello, hello, hello"))
	f.Add(packed(f, bare, "hello, hello, hello"))
	f.Add([]byte("hello"))
	var d coding.Body
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{"gzip", "zstd", "deflate"} {
			if d.Open(name, b) == nil {
				io.Copy(io.Discard, io.LimitReader(&d, 1<<20))
			}
		}
	})
}
