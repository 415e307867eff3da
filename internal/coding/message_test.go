package coding_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
)

func TestMessages(t *testing.T) {
	var m coding.Messages
	const most = 1 << 20
	for _, text := range []string{"", "x", `{"t":"mark"}`, strings.Repeat(`{"seq":1},`, 50_000), strings.Repeat("é", most/2)} {
		packed := m.Pack([]byte(text))
		got, err := m.Unpack(packed, most)
		if err != nil || string(got) != text {
			t.Errorf("%.20q: %d bytes come back as %d, %v", text, len(text), len(got), err)
		}
		if len(text) > 1000 && len(packed) > len(text)/50 {
			t.Errorf("%.20q: %d bytes are packed into %d", text, len(text), len(packed))
		}
		if text == "" {
			continue
		}
		if _, err := m.Unpack(packed, int64(len(text))-1); err == nil {
			t.Errorf("%.20q: unpacked although larger than allowed", text)
		}
		for _, bad := range [][]byte{append(bytes.Clone(packed), packed...), append(bytes.Clone(packed), 0), packed[:len(packed)-1], packed[:3], nil,
			append([]byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"), packed...)} {
			if _, err := m.Unpack(bad, most); err == nil {
				t.Errorf("%.20q: %d bytes that are not a frame are unpacked", text, len(bad))
			}
		}
	}
}

// A frame that claims to hold a gigabyte, or demands as large a window, costs nothing.
func TestHostileMessagesAllocateLittle(t *testing.T) {
	var m coding.Messages
	m.Unpack(m.Pack([]byte("x")), 1) // what a decoder takes
	zero := bytes.Repeat([]byte{0}, 1<<28)
	bomb := m.Pack(zero)
	wide := binary.LittleEndian.AppendUint32([]byte("\x28\xb5\x2f\xfd\x80\xb8"), 100) // a window of 2^33, content of 100 bytes
	wide = append(wide, "\x01\x00\x00"...)                                            // and nothing in it
	zero = nil
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i, b := range [][]byte{bomb, wide} {
		if _, err := m.Unpack(b, 4<<20); err == nil {
			t.Errorf("frame %d is unpacked", i)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("allocated %d KiB", took>>10)
	}
}

// The zstd program understands the messages, and we understand its frames.
func TestExchangeMessagesWithZstdTool(t *testing.T) {
	if _, err := exec.LookPath("zstd"); err != nil {
		t.Skip("there is no zstd")
	}
	text := []byte(strings.Repeat(`{"t":"ev","seq":1,"op":"update"}`, 1000))
	var m coding.Messages
	cmd := exec.Command("zstd", "-dc")
	cmd.Stdin = bytes.NewReader(m.Pack(text))
	if got, err := cmd.Output(); err != nil || !bytes.Equal(got, text) {
		t.Errorf("zstd reads %d bytes of %d, %v", len(got), len(text), err)
	}
	cmd = exec.Command("zstd", "-c", fmt.Sprintf("--stream-size=%d", len(text)))
	cmd.Stdin = bytes.NewReader(text)
	packed := must.Get(cmd.Output())
	if got, err := m.Unpack(packed, 1<<20); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func FuzzMessages(f *testing.F) {
	var m coding.Messages
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := range 8 {
		b := make([]byte, 1<<n)
		for i := range b {
			b[i] = byte(rnd.IntN(3))
		}
		f.Add(m.Pack(b))
	}
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 16
		text, err := m.Unpack(b, most)
		if len(text) > most {
			t.Errorf("%d bytes, more than %d", len(text), most)
		}
		if again, e := m.Unpack(m.Pack(text), most); err == nil && (e != nil || !bytes.Equal(again, text)) {
			t.Errorf("packed again: %v", e)
		}
	})
}

// BenchmarkMessagesHeld measures a reader's memory for each site that it follows.
func BenchmarkMessagesHeld(b *testing.B) {
	var packer coding.Messages
	packed := packer.Pack([]byte(strings.Repeat(`{"t":"ev","seq":1,"op":"update"}`, 10)))
	all := make([]coding.Messages, b.N)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		must.Get(all[i].Unpack(packed, 1<<20))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N)/1024, "KiB/reader")
	runtime.KeepAlive(all)
}
