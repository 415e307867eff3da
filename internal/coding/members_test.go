package coding_test

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
)

// pieces packs some contents, and returns where each ends.
func pieces(t testing.TB, name string, several []string) ([]byte, []int64) {
	t.Helper()
	p := must.Get(coding.NewPacker(name))
	var b []byte
	var ends []int64
	for _, c := range several {
		b = p.Append(b, []byte(c))
		ends = append(ends, int64(len(b)))
	}
	return b, ends
}

var several = []string{"a", "", strings.Repeat("long ", 100_000), strings.Repeat("\x00", 300_000), "the end"}

// Each piece can be read alone, and its end is known.
func TestMembers(t *testing.T) {
	for _, name := range []string{"gzip", "zstd"} {
		b, ends := pieces(t, name, several)
		m := coding.NewMembers(slowly(b))
		for i, want := range several {
			if err := m.Next(); err != nil {
				t.Fatalf("%s: piece %d: %v", name, i, err)
			}
			got, err := io.ReadAll(m)
			if string(got) != want || err != nil || m.Offset() != ends[i] || m.Plain() {
				t.Errorf("%s: piece %d: %d bytes, %v, up to %d, want %d", name, i, len(got), err, m.Offset(), ends[i])
			}
		}
		if err := m.Next(); err != io.EOF {
			t.Errorf("%s: after the last: %v", name, err)
		}
		m.Close()
		// All of it is still one stream.
		r := must.Get(coding.NewReader(bytes.NewReader(b)))
		if got, err := io.ReadAll(r); string(got) != strings.Join(several, "") || err != nil {
			t.Errorf("%s: as a whole: %d bytes, %v", name, len(got), err)
		}
	}
}

// slowly gives few bytes at a time.
func slowly(b []byte) io.Reader { return &few{b} }

type few struct{ b []byte }

func (f *few) Read(p []byte) (int, error) {
	if len(f.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 777)], f.b)
	f.b = f.b[n:]
	return n, nil
}

func TestMembersOfOtherWriters(t *testing.T) {
	m := coding.NewMembers(strings.NewReader("plain text"))
	if err := m.Next(); err != nil || !m.Plain() {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(m); string(got) != "plain text" || m.Next() != io.EOF {
		t.Errorf("%q", got)
	}
	skip := "\x5d\x2a\x4d\x18\x05\x00\x00\x00abcde" // a frame that is no content
	b, _ := pieces(t, "zstd", []string{"x", "y"})
	m.Reset(strings.NewReader(skip+string(b)+skip), 100)
	for _, want := range []string{"x", "y"} {
		must.OK(t, m.Next())
		if got, err := io.ReadAll(m); string(got) != want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if err := m.Next(); err != io.EOF || m.Offset() != 100+int64(len(b)+2*len(skip)) {
		t.Errorf("%v at %d", err, m.Offset())
	}
	if zstd, err := exec.LookPath("zstd"); err == nil { // frames with sums, and of many blocks
		cmd := exec.Command(zstd, "-c", "--check")
		cmd.Stdin = strings.NewReader(strings.Join(several, "\n"))
		out := must.Get(cmd.Output())
		m.Reset(bytes.NewReader(append(bytes.Clone(out), out...)), 0)
		for i := range 2 {
			must.OK(t, m.Next())
			if got, err := io.ReadAll(m); string(got) != strings.Join(several, "\n") || err != nil || m.Offset() != int64((i+1)*len(out)) {
				t.Errorf("%d bytes, %v, up to %d of %d", len(got), err, m.Offset(), 2*len(out))
			}
		}
	}
}

// A truncated or modified piece is an error, and no piece appears from nothing.
func TestDamagedMembersAreErrors(t *testing.T) {
	for _, name := range []string{"gzip", "zstd"} {
		b, ends := pieces(t, name, []string{"first piece", "second piece"})
		for cut := ends[0] + 1; cut < ends[1]; cut++ {
			m := coding.NewMembers(bytes.NewReader(b[:cut]))
			must.OK(t, read(m))
			if err := read(m); err == nil || err == io.EOF {
				t.Errorf("%s cut at %d of %d: %v", name, cut, len(b), err)
			}
			m.Close()
		}
		m := coding.NewMembers(strings.NewReader(string(b[:ends[0]]) + "foreign"))
		must.OK(t, read(m))
		if err := m.Next(); err == nil || err == io.EOF {
			t.Errorf("foreign bytes: %v", err)
		}
	}
	if _, err := coding.NewPacker("br"); err == nil {
		t.Error("a coding that is not known")
	}
}

func read(m *coding.Members) error {
	if err := m.Next(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, m)
	return err
}

func FuzzMembers(f *testing.F) {
	for _, name := range []string{"gzip", "zstd"} {
		b, _ := pieces(f, name, []string{"a", strings.Repeat("bc", 500), ""})
		f.Add(b)
		f.Add(b[:len(b)-3])
	}
	f.Add([]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := coding.NewMembers(bytes.NewReader(data))
		defer m.Close()
		last := int64(-1)
		for range 1000 {
			if m.Next() != nil {
				return
			}
			if n, err := io.Copy(io.Discard, io.LimitReader(m, 1<<22)); err != nil || n == 1<<22 {
				return
			}
			if m.Offset() <= last || m.Offset() > int64(len(data)) {
				t.Fatal(fmt.Sprint("it stands at ", m.Offset(), " after ", last))
			}
			last = m.Offset()
		}
	})
}
