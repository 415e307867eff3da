package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/stat"
)

// An account is what the journal's file remembers of the published manifest.
// To write a manifest of a million pages only to see that it is the one which
// is there takes longer than to look at all the pages.
//
// It says: this file is what the journal made at Revision. So as long as the
// revision is the same, and the file is, and so is all else that goes into a
// manifest, there is nothing to do. What the rules withhold goes into it too:
//
//   - entries: a Publisher writes after a look, and a look withdraws every
//     entry that the rules forbid by then, which moves the revision. A
//     manifest that had to withhold one is not accounted for. (After a look
//     that failed, what is published stays as it is.)
//   - tombstones: no look sees them, so Config says which may be told.
//
// It is noted once the file is in place. Who is killed in between compares.
type account struct {
	Revision uint64          `json:"revision"`
	Config   string          `json:"config"`
	Cursor   protocol.Cursor `json:"cursor"`
	Items    int             `json:"items"`
	Etag     string          `json:"etag"`

	// Stamp is that of the file. Young says that it was so young that a later
	// write could have left the same one: then only its content proves it.
	Stamp []byte `json:"stamp"`
	Young bool   `json:"young,omitempty"`
}

const accountNote = "output/manifest"

// readAccount returns the zero account if there is none that can be used.
func readAccount(j *Journal) (a account) {
	b, err := j.Note(accountNote)
	if err != nil || b == nil || json.Unmarshal(b, &a) != nil {
		return account{}
	}
	return a
}

// isOf reports whether the account is certainly that of an open file.
func (a *account) isOf(f *os.File) bool {
	st, err := stat.Of(f)
	return err == nil && a.Etag != "" && !a.Young && bytes.Equal(a.Stamp, st.Settled())
}

// accounted reports whether the file is accounted for as what a write would
// make. One that looks otherwise than it did, as after it was copied, is read:
// that is cheaper than to make it again.
func (s *Snapshot) accounted(ctx context.Context, j *Journal) bool {
	a := readAccount(j)
	if a.Etag == "" || !s.isCurrent(a, j) {
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
	s.state = &published{cursor: a.Cursor, items: a.Items, etag: a.Etag, info: info, checked: true}
	s.mu.Unlock()
	if moved {
		s.account(ctx, j, a)
	}
	return true
}

// isCurrent reports whether a write would make the manifest of the account.
func (s *Snapshot) isCurrent(a account, j *Journal) bool {
	v, err := j.View()
	if err != nil {
		return false
	}
	defer v.Close()
	if a.Revision != v.Revision() || a.Cursor != v.Head() {
		return false
	}
	config, err := s.config(v)
	return err == nil && a.Config == config
}

// waitFor is the size, in bytes, from which a file is not accounted for while
// it is young: to wait a moment costs less than to read it the next time.
const waitFor = 16 << 20

// account notes that the file, as it is now, is the one described by a. That
// it could not be noted makes the next process compare, and nothing worse. No
// View may be open.
func (s *Snapshot) account(ctx context.Context, j *Journal, a account) {
	if a.Revision == 0 {
		return
	}
	f, _ := s.open()
	if f == nil {
		return // somebody else has written meanwhile
	}
	defer f.Close()
	st, err := stat.Of(f)
	if err == nil && st.Size >= waitFor && st.Young(time.Now()) && pause.For(ctx, stat.Tick) {
		st, err = stat.Of(f)
	}
	if err != nil {
		return
	}
	a.Stamp, a.Young = st.Settled(), st.Young(time.Now())
	if b, err := json.Marshal(a); err == nil {
		_ = j.SetNotes(map[string][]byte{accountNote: b})
	}
}

// config hashes what goes into the manifest besides the entries that a view
// shows: what it says of the site, how this program writes manifests, and
// which tombstones may be told.
func (s *Snapshot) config(v *journal.View) (string, error) {
	h := sha256.New()
	if err := s.sample(h); err != nil {
		return "", err
	}
	public := s.Public
	if public == nil {
		public = func(string) bool { return true }
	}
	for t, err := range v.Tombstones() {
		if err != nil {
			return "", err
		}
		fmt.Fprint(h, public(t.URL), t.To != "" && public(t.To))
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// sample writes a manifest of everything that a manifest can hold: another
// program may write it otherwise.
func (s *Snapshot) sample(w io.Writer) error {
	at := time.UnixMilli(1_000_000_000_001).UTC()
	m := s.Manifest
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
	return protocol.WriteManifest(w, m, each(items), each(gone))
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
