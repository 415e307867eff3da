package client

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/bundle"
	"github.com/parleyweb/parley/internal/coding"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/protocol"
)

// packed returns an archive of some pages, with its description.
func packed(t testing.TB, described string, pages ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	put := func(name string) io.Writer {
		return must.Get(z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store}))
	}
	w := bundle.NewWriter(put(archiveData), bundle.Head{To: protocol.Cursor{Epoch: "one", Seq: 7}, Changes: len(pages)}, bundle.Gzip)
	for i, p := range pages {
		c := protocol.Change{Seq: 7, Op: protocol.Create, Item: protocol.Item{URL: fmt.Sprintf("https://www.example.org/%d", i), Length: int64(len(p)), Digest: protocol.Sum([]byte(p))}}
		packer := bundle.NewPacker(bundle.Gzip)
		records, _ := packer.Append(nil, "one", &c, []byte(p))
		must.OK(t, w.AddPacked(packer.Seal(nil, records), 1, 1))
	}
	must.OK(t, w.Close())
	io.WriteString(put(archivePackage), described)
	must.OK(t, z.Close())
	return b.Bytes()
}

const described = `{"profile": "data-package", "parley": {"cursor": "one:7", "items": 2}}`

func unpack(b []byte) (n int, bodies int, err error) {
	a, err := openArchive(bytes.NewReader(b), int64(len(b)), 100)
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	for p, err := range a.pages.Pages() {
		if err != nil {
			return n, bodies, err
		}
		if n++; p.Body != nil {
			bodies++
		}
	}
	return n, bodies, nil
}

func TestArchive(t *testing.T) {
	good := packed(t, described, "first", strings.Repeat("too large ", 20))
	if n, bodies, err := unpack(good); n != 2 || bodies != 1 || err != nil {
		t.Errorf("%d pages, %d with bytes, %v", n, bodies, err)
	}
	for name, says := range map[string]string{
		"nothing":        `{}`,
		"no JSON":        `parley`,
		"another cursor": `{"parley": {"cursor": "one:8", "items": 2}}`,
		"another number": `{"parley": {"cursor": "one:7", "items": 3}}`,
		"much":           `{"parley": {"cursor": "one:7", "items": 2}, "x": "` + strings.Repeat("x", maxPackage) + `"}`,
	} {
		if _, _, err := unpack(packed(t, says, "first", "second")); err == nil || !strings.HasPrefix(err.Error(), "open archive: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The checksum of the file is verified, even if its records are whole.
	at := bytes.Index(good, []byte("PK\x01\x02")) + 16 // its place in the directory
	for i := range 4 {
		good[at+i] ^= 0xff
	}
	if n, _, err := unpack(good); err == nil {
		t.Errorf("%d pages accepted from an archive with a wrong digest", n)
	}
}

// The entries of an archive's directory are counted before it is read, so that memory use depends on
// what the caller wants, not on the size of the input.
func TestArchiveDirectoryIsBounded(t *testing.T) {
	const files = 200_000
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range files {
		must.Get(z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%x", i), Method: zip.Store}))
	}
	must.OK(t, z.Close())
	big := b.Bytes()
	lies := bytes.Clone(big[:len(big)-22-20-56]) // one that states less than it is, which is for readers to gloss over
	at := bytes.Index(lies, []byte("PK\x01\x02"))
	end := []byte("PK\x05\x06\x00\x00\x00\x00")
	end = binary.LittleEndian.AppendUint16(end, uint16(files%(1<<16)))
	end = binary.LittleEndian.AppendUint16(end, uint16(files%(1<<16)))
	end = binary.LittleEndian.AppendUint32(end, 46)
	end = binary.LittleEndian.AppendUint32(end, uint32(at))
	lies = append(lies, append(end, 0, 0)...)
	for name, b := range map[string][]byte{"large": big, "larger than it says": lies} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := unpack(b)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: archive was opened", name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*maxDirectory {
			t.Errorf("%s: rejecting %d bytes used %d bytes of memory (%v)", name, len(b), got, err)
		}
	}
}

// For any input, reading an archive ends with its contents or with an error.
func FuzzArchive(f *testing.F) {
	f.Add(packed(f, described, "first", "second"))
	f.Add(packed(f, described))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, _, err := unpack(b); err == nil && n > len(b) {
			t.Errorf("%d pages of %d bytes", n, len(b))
		}
	})
}

// A body is accepted as a page only if it has the announced digest.
func FuzzBody(f *testing.F) {
	base, page := []byte(strings.Repeat("as it was ", 50)), []byte(strings.Repeat("as it was ", 50)+"and is")
	delta := must.Get(coding.Delta(base, page))
	f.Add(delta, true)
	f.Add(page, false)
	f.Add([]byte{}, true)
	src := &Source{Base: "https://www.example.org/", Held: func(string, protocol.Digest) ([]byte, error) { return base, nil }}
	f.Fuzz(func(t *testing.T, b []byte, differs bool) {
		d := decoder{src: src.withDefaults()}
		body := protocol.Body{Bytes: b}
		if differs {
			body.Coding, body.Base = protocol.CodingDelta, protocol.Sum(base)
		}
		item := protocol.Item{URL: "https://www.example.org/a", Digest: protocol.Sum(page), Length: int64(len(page))}
		pages, _ := d.decode([]protocol.Change{{Op: protocol.Update, Item: item}}, []protocol.Body{body})
		if len(pages) > 0 && !bytes.Equal(pages[0], page) {
			t.Errorf("got %q for %q", pages[0], page)
		}
	})
}

// The decoded size of one message is bounded, however small the message is.
func TestBodiesAreBounded(t *testing.T) {
	page := make([]byte, 12<<20)
	delta := must.Get(coding.Delta(page[:8<<20], page[:8<<20]))
	base := page[:8<<20]
	src := &Source{Base: "https://www.example.org/", Held: func(string, protocol.Digest) ([]byte, error) { return base, nil }}
	d := decoder{src: src.withDefaults()}
	var changes []protocol.Change
	var bodies []protocol.Body
	for i := range 20 {
		changes = append(changes, protocol.Change{Op: protocol.Update, Item: protocol.Item{URL: fmt.Sprintf("https://www.example.org/%d", i), Digest: protocol.Sum(base), Length: -1}})
		bodies = append(bodies, protocol.Body{Coding: protocol.CodingDelta, Base: protocol.Sum(base), Bytes: delta})
	}
	pages, _ := d.decode(changes, bodies)
	n := 0
	for _, p := range pages {
		n += len(p)
	}
	if n != mostBodies || d.recentBytes > mostRecent {
		t.Errorf("%d bytes, %d kept", n, d.recentBytes)
	}
	d.src.MaxPage = 1 << 20
	if pages, _ := d.decode(changes[:1], bodies[:1]); pages != nil {
		t.Errorf("a page of %d bytes", len(pages[0]))
	}
}
