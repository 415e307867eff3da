package coding_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
)

// words is text of about n bytes that gzip makes a third of.
func words(r *rand.Rand, n int) []byte {
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "<p>%x is %d, and %s.</p>\n", r.Uint32(), r.IntN(1000), []string{"red", "green", "no colour", "blue or so"}[r.IntN(4)])
	}
	return b.Bytes()[:n]
}

// edited is b with some edits, as people and programs make them.
func edited(r *rand.Rand, b []byte, edits int) []byte {
	b = bytes.Clone(b)
	for range edits {
		i := r.IntN(len(b) + 1)
		j := min(len(b), i+r.IntN(200))
		switch r.IntN(3) {
		case 0: // put in
			b = append(b[:i:i], append(words(r, r.IntN(100)), b[i:]...)...)
		case 1: // take out
			b = append(b[:i:i], b[j:]...)
		case 2: // moved to the end
			b = append(append(b[:i:i], b[j:]...), b[i:j]...)
		}
	}
	return b
}

func TestDeltaOfEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		base := words(r, r.IntN(1<<r.IntN(18)))
		page := edited(r, base, r.IntN(10))
		if i%10 == 0 {
			page = words(r, r.IntN(10_000)) // another page altogether
		}
		delta, err := coding.Delta(base, page)
		if err != nil {
			t.Fatal(err)
		}
		got, err := coding.ApplyDelta(base, delta, int64(len(page)))
		if err != nil || !bytes.Equal(got, page) {
			t.Fatalf("%d bytes of %d from %d: %v", len(got), len(page), len(base), err)
		}
		if len(page) > 0 {
			if _, err := coding.ApplyDelta(base, delta, int64(len(page))-1); err == nil {
				t.Fatal("more bytes than allowed")
			}
		}
		if sum := sha256.Sum256(base); !bytes.Equal(delta[8:40], sum[:]) {
			t.Fatal("the delta does not name its base")
		}
	}
}

// Whatever the size of the base, similar parts are found: compression levels
// differ in the largest base that they support, and fail silently.
func TestDeltaOfLargePages(t *testing.T) {
	sizes := []int{100 << 10, 256 << 10, 256<<10 + 1, 1 << 20}
	if !testing.Short() {
		sizes = append(sizes, 3<<20, 11<<20, 13<<20, coding.MaxDeltaBase)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range sizes {
		base := words(r, n)
		page := edited(r, base, 5)
		delta := must.Get(coding.Delta(base, page))
		if len(delta) > 2000+n/200 {
			t.Errorf("base of %d bytes: a delta of %d after five edits", n, len(delta))
		}
		zstdTool(t, base, page, delta)
	}
}

func TestDeltaTooLarge(t *testing.T) {
	if _, err := coding.Delta(make([]byte, coding.MaxDeltaBase+1), nil); !errors.Is(err, coding.ErrDeltaSize) {
		t.Errorf("%v", err)
	}
	if _, err := coding.ApplyDelta(make([]byte, coding.MaxDeltaBase+1), nil, 1); !errors.Is(err, coding.ErrDeltaSize) {
		t.Errorf("%v", err)
	}
	// RFC 9842: a reader need not remember more than 8 MiB against a small base.
	if _, err := coding.Delta([]byte("small"), make([]byte, 8<<20+1)); !errors.Is(err, coding.ErrDeltaSize) {
		t.Errorf("%v", err)
	}
}

func TestDamagedDeltaIsAnError(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	base := words(r, 5000)
	page := edited(r, base, 4)
	delta := must.Get(coding.Delta(base, page))
	other := bytes.Clone(base)
	other[0] ^= 1
	for _, c := range []struct {
		what        string
		base, delta []byte
		max         int64
		says        string
	}{
		{"of another base", other, delta, 1 << 20, "another base"},
		{"cut in the header", base, delta[:39], 1 << 20, "no dcz header"},
		{"without a frame", base, delta[:40], 1 << 20, "not a zstd frame"},
		{"another header", base, append([]byte("\x5f"), delta[1:]...), 1 << 20, "no dcz header"},
		{"a bound below zero", base, delta, -1, ""},
		{"more behind it", base, append(bytes.Clone(delta), "more"...), 1 << 20, ""},
		// A page of 2 GiB, by what the frame says; and a window of as much.
		{"a bomb", base, append(bytes.Clone(delta[:40]), "\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x80\x00\x00\x00\x00\x01\x00\x00"...), 1 << 20, ""},
		{"a large window", base, append(bytes.Clone(delta[:40]), "\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00"...), 1 << 40, "window"},
	} {
		if got, err := coding.ApplyDelta(c.base, c.delta, c.max); err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "apply delta: ") {
			t.Errorf("%s: %d bytes, %v", c.what, len(got), err)
		}
	}
	for i := 40; i < len(delta); i++ {
		if got, err := coding.ApplyDelta(base, delta[:i], 1<<20); err == nil {
			t.Fatalf("cut at %d of %d: %d bytes", i, len(delta), len(got))
		}
		broken := bytes.Clone(delta)
		broken[i] ^= 1 << (i % 8)
		if got, err := coding.ApplyDelta(base, broken, 1<<20); err == nil && !bytes.Equal(got, page) {
			t.Fatalf("broken at %d of %d: %d bytes, and no error", i, len(delta), len(got))
		}
	}
}

// zstdTool lets the zstd program apply a delta, if it is there.
func zstdTool(t *testing.T, base, page, delta []byte) {
	t.Helper()
	tool, err := exec.LookPath("zstd")
	if err != nil {
		return // TestExchangeDeltasWithZstdTool says so
	}
	dir := t.TempDir()
	name := write(t, dir, "base", base)
	for _, b := range [][]byte{delta[coding.DeltaHeader:], delta} { // the header is a frame that is skipped
		cmd := exec.Command(tool, "-d", "-c", "--patch-from="+name, write(t, dir, "delta", b))
		out, err := cmd.Output()
		if err != nil || !bytes.Equal(out, page) {
			t.Errorf("%v: %d bytes of %d, %v", cmd, len(out), len(page), err)
		}
	}
}

func write(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	name = filepath.Join(dir, name)
	must.OK(t, os.WriteFile(name, b, 0o600))
	return name
}

// The zstd program reads our deltas, and we read its.
func TestExchangeDeltasWithZstdTool(t *testing.T) {
	tool, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("no zstd on this machine")
	}
	r := rand.New(rand.NewPCG(7, 8))
	dir := t.TempDir()
	for _, n := range []int{10, 1000, 40_000, 700_000, 9 << 20} {
		base := words(r, n)
		page := edited(r, base, 3)
		delta := must.Get(coding.Delta(base, page))
		zstdTool(t, base, page, delta)
		for _, level := range []string{"-1", "-19"} {
			if n > 1<<20 && (level == "-19" || testing.Short()) {
				continue // slow
			}
			cmd := exec.Command(tool, level, "-q", "-f", "--patch-from="+write(t, dir, "base", base), write(t, dir, "page", page), "-o", filepath.Join(dir, "patch"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", cmd, err, out)
			}
			frame := must.Get(os.ReadFile(filepath.Join(dir, "patch")))
			theirs := append(bytes.Clone(delta[:coding.DeltaHeader]), frame...)
			if got, err := coding.ApplyDelta(base, theirs, int64(len(page))); err != nil || !bytes.Equal(got, page) {
				t.Errorf("%v: %d bytes of %d: %v", cmd, len(got), len(page), err)
			}
		}
	}
}

func FuzzApplyDelta(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{0, 1, 7, 8, 300, 20_000} {
		base := words(r, n)
		delta := must.Get(coding.Delta(base, edited(r, base, 3)))
		f.Add(base, delta[coding.DeltaHeader:])
		f.Add(base, append(delta[coding.DeltaHeader:], delta...))
	}
	f.Add([]byte("base"), []byte("\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, base, frame []byte) {
		const max = 1 << 20
		sum := sha256.Sum256(base)
		page, err := coding.ApplyDelta(base, []byte("\x5e\x2a\x4d\x18\x20\x00\x00\x00"+string(sum[:])+string(frame)), max)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "apply delta: ") {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(page) > max {
			t.Fatalf("%d bytes", len(page))
		}
		delta := must.Get(coding.Delta(base, page))
		if again, err := coding.ApplyDelta(base, delta, max); err != nil || !bytes.Equal(again, page) {
			t.Fatalf("%v", err)
		}
	})
}

func BenchmarkDelta(b *testing.B) {
	r := rand.New(rand.NewPCG(11, 12))
	base := words(r, 32<<10)
	page := edited(r, base, 3)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		must.Get(coding.Delta(base, page))
	}
}
