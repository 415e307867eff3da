package coding_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
)

// writers are the codings that are written, by the command that reads them.
var writers = map[string]func(io.Writer) io.WriteCloser{"gzip": coding.NewGzip, "zstd": coding.NewZstd}

// contents are of all kinds: none, one byte, what a match or a block is long,
// and what does not compress.
func contents() map[string][]byte {
	random := make([]byte, 300_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	return map[string][]byte{
		"nothing": nil, "a byte": {0}, "a line": []byte("a line\n"), "zeros": make([]byte, 5<<20), "noise": random,
		"text":             []byte(strings.Repeat("<url><loc>https://e.example/</loc></url>\n", 20_000)),
		"a plain gzip":     []byte("\x1f"),
		"almost a gzip":    []byte("\x1e\x8b\x08"),
		"almost a zstd":    []byte("\x28\xb5\x2f"),
		"a list of digits": []byte("0123456789"),
	}
}

func encode(t testing.TB, to func(io.Writer) io.WriteCloser, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := to(&out)
	must.Get(w.Write(b))
	must.OK(t, w.Close())
	return out.Bytes()
}

func decode(r io.Reader) ([]byte, error) {
	z, err := coding.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return io.ReadAll(z)
}

func TestRoundTrip(t *testing.T) {
	for what, b := range contents() {
		if got, err := decode(bytes.NewReader(b)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s as it is: %d bytes, %v", what, len(got), err)
		}
		for name, to := range writers {
			coded := encode(t, to, b)
			if got, err := decode(iotest.HalfReader(bytes.NewReader(coded))); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%s in %s: %d bytes, %v", what, name, len(got), err)
			}
			if !bytes.Equal(coded, encode(t, to, b)) {
				t.Errorf("%s in %s: encoded twice, the streams differ", what, name)
			}
			twice, err := decode(bytes.NewReader(append(coded, coded...)))
			if err != nil || len(twice) != 2*len(b) {
				t.Errorf("%s in %s, twice: %d bytes, %v", what, name, len(twice), err)
			}
		}
	}
}

// Truncated or broken input is an error and not a shorter content.
func TestDamagedInputIsAnError(t *testing.T) {
	text := contents()["text"]
	for name, to := range writers {
		coded := encode(t, to, text)
		for _, n := range []int{4, 5, 9, 10, 18, len(coded) / 2, len(coded) - 1} {
			if got, err := decode(bytes.NewReader(coded[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %d of %d bytes: %d bytes, %v", name, n, len(coded), len(got), err)
			}
		}
		broken := bytes.Clone(coded)
		broken[len(broken)-2] ^= 1
		if _, err := decode(bytes.NewReader(broken)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s, broken: %v", name, err)
		}
	}
	reset := errors.New("connection reset")
	if _, err := decode(iotest.ErrReader(reset)); err != reset {
		t.Errorf("%v", err)
	}
}

// Independent programs read our output, and we read theirs.
func TestExchangeWithGzipAndZstdTools(t *testing.T) {
	for name, to := range writers {
		t.Run(name, func(t *testing.T) {
			tool, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("no %s on this machine", name)
			}
			for what, b := range contents() {
				for _, c := range []struct {
					args []string
					in   []byte
					back bool
				}{{[]string{"-dc"}, encode(t, to, b), false}, {[]string{"-c"}, b, true}} {
					cmd := exec.Command(tool, c.args...)
					cmd.Stdin = bytes.NewReader(c.in)
					out, err := cmd.Output()
					if err != nil {
						t.Fatalf("%s: %v: %v", what, cmd, err)
					}
					if c.back {
						out, err = decode(bytes.NewReader(out))
					}
					if err != nil || !bytes.Equal(out, b) {
						t.Errorf("%s: %v: %d bytes, %v", what, cmd, len(out), err)
					}
				}
			}
		})
	}
}

// A frame may demand that a reader remembers far more than it should.
func TestWindowIsBounded(t *testing.T) {
	// A header of a frame with a window of 2 GiB, and an empty last block.
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0, 0}
	if _, err := decode(bytes.NewReader(b)); err == nil {
		t.Error("a window of 2 GiB is accepted")
	}
	b[5] = 17 << 3 // 128 MiB
	if got, err := decode(bytes.NewReader(b)); err != nil || len(got) != 0 {
		t.Errorf("%v", err)
	}
}

// For any input, a reader ends with the original content or with an error.
func FuzzReader(f *testing.F) {
	for _, to := range writers {
		f.Add(encode(f, to, []byte("a line, a line, a line\n")))
	}
	f.Add([]byte("\x1f\x8b"))
	f.Add([]byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		z, err := coding.NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		defer z.Close()
		if _, err := io.Copy(io.Discard, io.LimitReader(z, 1<<20)); err != nil && !strings.HasPrefix(err.Error(), "read ") {
			t.Errorf("%v", err)
		}
	})
}

func ExampleNewReader() {
	var b bytes.Buffer
	w := coding.NewGzip(&b)
	fmt.Fprintln(w, "hello")
	w.Close()
	r, err := coding.NewReader(&b)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	io.Copy(os.Stdout, r)
	// Output: hello
}
