package coding_test

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"io"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
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
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
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
