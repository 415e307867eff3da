package manifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/stat"
)

// An account is what the journal's file remembers of the published manifest.
// Writing a manifest of a million pages only to find that it is identical to the
// existing one takes longer than scanning all the pages.
//
// The account says: this file is what the journal produced at Revision. While the
// revision is the same, and so are the file and all other inputs of a manifest,
// there is nothing to write. The URLs that rules withhold are such an input:
//
//   - entries: a Publisher writes after a scan, and a scan withdraws every
//     entry that the rules forbid by then, which changes the revision. A
//     manifest that had to withhold one gets no account. (After a failed
//     scan the published manifest stays as it is.)
//   - tombstones: no scan checks them, so Config hashes which may be published.
//
// It is stored once the file is in place. A process killed in between compares.
type account struct {
	Revision uint64          `json:"revision"`
	Config   string          `json:"config"`
	Cursor   protocol.Cursor `json:"cursor"`
	Items    int             `json:"items"`
	Etag     string          `json:"etag"`

	// Stamp is the stamp of the file. Young says that the file was so young that a
	// later write could have left the same stamp: then only its content proves it.
	Stamp []byte `json:"stamp"`
	Young bool   `json:"young,omitempty"`
}

const accountNote = "output/manifest"

// readAccount returns the stored account, and the zero account if none is usable.
func readAccount(j *journal.Journal) (a account) {
	b, err := j.Note(accountNote)
	if err != nil || b == nil || json.Unmarshal(b, &a) != nil {
		return account{}
	}
	return a
}

// isOf reports whether the account certainly describes an open file.
func (a *account) isOf(f *os.File) bool {
	st, err := stat.Of(f)
	return err == nil && a.Etag != "" && !a.Young && bytes.Equal(a.Stamp, st.Settled(nil))
}

// accounted reports whether the file is already what a write would produce, by its
// account. If its stamp differs, as after it was copied, the file is read and hashed:
// that is cheaper than writing it again.
func (s *Snapshot) accounted(ctx context.Context, j *journal.Journal) bool {
	a := readAccount(j)
	parts, ok := s.isCurrent(a, j)
	if !ok {
		return false
	}
	f, err := stat.Open(s.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	moved := !a.isOf(f)
	if moved {
		if etag, err := etagOfFile(f, a.Cursor); err != nil || etag != a.Etag {
			return false
		}
	}
	s.mu.Lock()
	s.state = &published{cursor: a.Cursor, items: a.Items, etag: a.Etag, info: info, length: info.Size() + s.parted.state.length(), checked: true}
	if parts {
		s.state.dir = s.parted.disk.as
	}
	s.mu.Unlock()
	if moved {
		s.account(ctx, j, a)
	}
	return true
}

// isCurrent reports whether a write would produce the manifest of the account, and whether that is in parts.
func (s *Snapshot) isCurrent(a account, j *journal.Journal) (parts, is bool) {
	if a.Etag == "" {
		return false, false
	}
	v, err := j.View()
	if err != nil {
		return false, false
	}
	defer v.Close()
	if a.Revision != v.Revision() || a.Cursor != v.Head() {
		return false, false
	}
	st := s.parted.state
	parts = s.inParts(v.Len(), !st.isNone())
	if parts && (st.Cursor != a.Cursor || s.parted.disk.open(s.partsDir()) != nil || !s.parted.disk.has(st)) {
		return true, false
	}
	config, err := s.config(v, parts)
	return parts, err == nil && a.Config == config
}

// waitFor is the size, in bytes, from which account waits until the file is no
// longer young: waiting a moment costs less than reading the file the next time.
const waitFor = 16 << 20

// account stores that the file, as it is now, is the one described by a. If it
// cannot be stored, the next process compares, and nothing worse happens. No
// View may be open.
func (s *Snapshot) account(ctx context.Context, j *journal.Journal, a account) {
	if a.Revision == 0 {
		return
	}
	f, _ := s.open()
	if f == nil {
		return // another program has replaced it meanwhile
	}
	defer f.Close()
	st, err := stat.Of(f)
	if err == nil && st.Size >= waitFor && st.Young(time.Now()) && pause.For(ctx, stat.Tick) {
		st, err = stat.Of(f)
	}
	if err != nil {
		return
	}
	a.Stamp, a.Young = st.Settled(nil), st.Young(time.Now())
	if b, err := json.Marshal(a); err == nil {
		_ = j.SetNotes(map[string][]byte{accountNote: b})
	}
}

// config hashes the inputs of the manifest other than the entries of a view: the
// site's description, how this program writes manifests, and, if it is one file, which tombstones may
// be published.
func (s *Snapshot) config(v *journal.View, parts bool) (string, error) {
	config, err := configOf(s.Manifest)
	if err != nil || parts {
		return config + " parts", err
	}
	h := sha256.New()
	for t, err := range v.Tombstones() {
		if err != nil {
			return "", err
		}
		fmt.Fprint(h, s.isPublic(t.URL), t.To != "" && s.isPublic(t.To))
	}
	return config + hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// configOf hashes a manifest of everything that a manifest can hold, to detect a
// program version that writes it differently.
func configOf(m protocol.Manifest) (string, error) {
	at := time.UnixMilli(1_000_000_000_001).UTC()
	m.Modified, m.Cursor, m.Complete, m.Items = at, protocol.Cursor{Epoch: "e", Seq: 1}, true, 3
	items := []protocol.Item{
		{URL: "https://a.example/", Title: "A & <B> \u00e9\x00", Modified: at, Length: 1, Type: "text/HTML; x=y", Digest: protocol.Sum(nil),
			Text: protocol.Sum(nil), Language: "en", Canonical: "https://b.example/", Importance: 7},
		{URL: "https://a.example/b?c&d", Modified: at.Truncate(24 * time.Hour), Span: 24 * time.Hour, Length: -1},
		{URL: "https://a.example/b/", Length: 0, Importance: 100},
	}
	gone := []protocol.Tombstone{
		{URL: "https://a.example/c", At: at, Seq: 1, Prev: protocol.Sum(nil), To: "https://a.example/b/"},
		{URL: "https://a.example/d"},
	}
	h := sha256.New()
	if err := protocol.WriteManifest(h, m, each(items), each(gone)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

func each[T any](list []T) func(yield func(T, error) bool) {
	return func(yield func(T, error) bool) {
		for _, x := range list {
			if !yield(x, nil) {
				return
			}
		}
	}
}
