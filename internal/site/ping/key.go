package ping

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/internal/atomicfile"
)

const (
	keyNote = "indexnow/key"

	// keepOld is how long the file of a replaced key stays: engines check keys
	// some time after they answered 202.
	keepOld = 24 * time.Hour

	// maxKeyFile bounds the bytes of a file that may be a key file of ours.
	maxKeyFile = 1 << 10
)

// A key proves to engines that a sender speaks for its host: the host serves a
// file that is named after the key and contains it.
type key struct {
	Key  string    `json:"key"`
	Made time.Time `json:"made"`

	// Seen is when the site was found to serve the key. Zero means never.
	Seen time.Time `json:"seen,omitzero"`

	Old      string    `json:"old,omitempty"` // the key before this one
	OldUntil time.Time `json:"old_until,omitzero"`
}

// validKey reports whether s may be a key: 8 to 128 letters, digits and dashes.
func validKey(s string) bool {
	if len(s) < 8 || len(s) > 128 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		default:
			return false
		}
	}
	return true
}

func newKey() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// theKey returns the current key. It makes one if there is none.
func (s *IndexNow) theKey() (key, error) {
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	if err := s.loadKey(); err != nil {
		return key{}, err
	}
	if s.key.Key != "" && (s.Key == "" || s.Key == s.key.Key) {
		return s.key, nil
	}
	k := s.Key
	if k == "" {
		k = newKey()
	}
	return s.key, s.replaceKey(k)
}

// loadKey reads the note once. An unreadable note counts as missing: another key
// is then made.
func (s *IndexNow) loadKey() error {
	if s.keyLoaded {
		return nil
	}
	b, err := s.Journal.Note(keyNote)
	if err != nil {
		return err
	}
	var k key
	if b != nil && (json.Unmarshal(b, &k) != nil || !validKey(k.Key) || k.Old != "" && !validKey(k.Old)) {
		s.log().Warn("indexnow: the stored key cannot be read: a new key replaces it")
		k = key{}
	}
	s.key, s.keyLoaded = k, true
	return nil
}

// replaceKey makes k the key. The previous one is still served for keepOld.
func (s *IndexNow) replaceKey(k string) error {
	now := s.now()
	next := key{Key: k, Made: now}
	if s.key.Key != "" && s.key.Key != k {
		next.Old, next.OldUntil = s.key.Key, now.Add(keepOld)
	}
	older := s.key.Old
	if err := s.noteKey(next); err != nil {
		return err
	}
	if older != "" && older != next.Old && older != k {
		s.removeKeyFile(older)
	}
	return nil
}

func (s *IndexNow) noteKey(k key) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := s.Journal.SetNotes(map[string][]byte{keyNote: b}); err != nil {
		return err
	}
	s.key = k
	return nil
}

// newKey makes another key, writes its file, and wakes engines that refused the
// old one. It is the remedy for a burned key: one that an engine no longer accepts
// although the site serves it. The old key's file stays for a day. If Key is
// configured it returns an error: configure another one.
func (s *IndexNow) newKey() (string, error) {
	if err := s.init(); err != nil {
		return "", err
	}
	if s.Key != "" {
		return "", errors.New("make indexnow key: the key is given by the configuration: change it there")
	}
	s.keyMu.Lock()
	err := s.loadKey()
	if err == nil {
		err = s.replaceKey(newKey())
	}
	k := s.key.Key
	s.keyMu.Unlock()
	if err == nil {
		err = s.writeKeyFile()
	}
	if err != nil {
		return "", fmt.Errorf("make indexnow key: %w", err)
	}
	s.kick()
	return k, nil
}

// keyURL returns the URL of a key's file.
func (s *IndexNow) keyURL(k string) string { return s.Base + k + ".txt" }

// keyFile returns the path of a key's file in KeyDir.
func (s *IndexNow) keyFile(k string) string { return filepath.Join(s.KeyDir, k+".txt") }

// KeyPath returns the URL path of the file that proves the key, such as
// "/0123456789abcdef0123456789abcdef.txt". It makes the key if there is none.
func (s *IndexNow) KeyPath() (string, error) {
	if err := s.init(); err != nil {
		return "", err
	}
	k, err := s.theKey()
	if err != nil {
		return "", fmt.Errorf("indexnow key: %w", err)
	}
	return s.path + k.Key + ".txt", nil
}

// ServesPath reports whether ServeHTTP serves a URL path: that of the key's file,
// and for a day that of the previous key's file.
func (s *IndexNow) ServesPath(path string) bool {
	_, ok := s.keyAt(path)
	return ok
}

func (s *IndexNow) keyAt(path string) (string, bool) {
	if s.init() != nil {
		return "", false
	}
	name, ok := strings.CutSuffix(path, ".txt")
	if ok {
		name, ok = strings.CutPrefix(name, s.path)
	}
	if !ok || !validKey(name) {
		return "", false
	}
	k, err := s.theKey()
	if err != nil {
		return "", false
	}
	return name, name == k.Key || name == k.Old && s.now().Before(k.OldUntil)
}

// ServeHTTP answers requests for the key's file, see KeyPath.
func (s *IndexNow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k, ok := s.keyAt(r.URL.Path)
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Length", strconv.Itoa(len(k)))
	if r.Method == http.MethodGet {
		io.WriteString(w, k)
	}
}

// isKeyURL reports whether url is a key's file, which is never sent.
func (s *IndexNow) isKeyURL(url string, k key) bool {
	return url == s.keyURL(k.Key) || k.Old != "" && url == s.keyURL(k.Old)
}

// writeKeyFile ensures that KeyDir has the key's file, which a deployment of the
// site may have deleted, and removes the previous key's file when it has expired.
func (s *IndexNow) writeKeyFile() error {
	if s.KeyDir == "" {
		return nil
	}
	k, err := s.theKey()
	if err != nil {
		return err
	}
	s.fileMu.Lock()
	defer s.fileMu.Unlock()
	if k.Old != "" && over(k.OldUntil, s.now(), keepOld) {
		s.removeKeyFile(k.Old)
	}
	path := s.keyFile(k.Key)
	if holds(path, k.Key) {
		return nil
	}
	return atomicfile.Write(path, k.Key, 0o644)
}

// removeKeyFile removes the file of an old key, if it is ours.
func (s *IndexNow) removeKeyFile(k string) {
	if s.KeyDir == "" {
		return
	}
	path := s.keyFile(k)
	if !holds(path, k) {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log().Warn("indexnow: old key file could not be removed", "file", path, "err", err)
	}
}

// holds reports whether path is a regular file with the given text.
func holds(path, text string) bool {
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || st.Size() > maxKeyFile {
		return false
	}
	b, err := os.ReadFile(path)
	return err == nil && string(b) == text
}

// checkKey fetches the key's file as an engine would. It is served right, or
// certainly wrong, or neither is known: a firewall may admit engines and not us.
func (s *IndexNow) checkKey(ctx context.Context, k key) (right, wrong bool, why string) {
	req, err := http.NewRequest(http.MethodGet, s.keyURL(k.Key), nil)
	if err != nil {
		return false, true, err.Error()
	}
	a := ask(ctx, transport(s.HTTP), req, askTime)
	url := s.keyURL(k.Key)
	switch {
	case a.status == 0:
		return false, false, fmt.Sprintf("%s could not be fetched from here: %v", url, a.err)
	case a.ok() && strings.TrimSpace(strings.TrimPrefix(a.body, "\ufeff")) == k.Key:
		return true, false, ""
	case a.ok():
		return false, true, fmt.Sprintf("%s does not contain the key", url)
	case a.status == http.StatusNotFound, a.status == http.StatusGone, a.status >= 300 && a.status < 400:
		return false, true, fmt.Sprintf("%s answers %v", url, a)
	}
	return false, false, fmt.Sprintf("%s answers %v from here", url, a)
}

// recordKeySeen records that the site serves the key.
func (s *IndexNow) recordKeySeen(k key) error {
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	if s.key.Key != k.Key {
		return nil // replaced meanwhile
	}
	next := s.key
	next.Seen = s.now()
	return s.noteKey(next)
}
