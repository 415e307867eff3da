package ping

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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

	// Seen is when the site was found to serve the key, at the base URL At: a site that moves has to show it again. Zero means never.
	Seen time.Time `json:"seen,omitzero"`
	At   string    `json:"at,omitempty"`

	Old      string    `json:"old,omitempty"` // the key before this one
	OldUntil time.Time `json:"old_until,omitzero"`
}

// validKey reports whether s may be a key: 8 to 128 letters, digits and dashes.
func validKey(s string) bool {
	return len(s) >= 8 && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") == ""
}

func newKey() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// A keyring has the key of a site, its note in the journal and its file. Its methods may be called by many
// goroutines at once.
type keyring struct {
	o    *IndexNowOptions
	base *url.URL

	mu     sync.Mutex // guards the fields below
	key    key
	loaded bool
	kicked context.Context // ends when there is a new key
	kick   context.CancelFunc

	fileMu sync.Mutex // held while the key's file is written
}

func (r *keyring) open(o *IndexNowOptions, base *url.URL) {
	r.o, r.base = o, base
	r.kicked, r.kick = context.WithCancel(context.Background())
}

// kicks returns a context that ends when there is a new key.
func (r *keyring) kicks() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kicked
}

// current returns the current key. It makes one if there is none.
func (r *keyring) current() (key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(); err != nil {
		return key{}, err
	}
	if r.key.Key != "" && (r.o.Key == "" || r.o.Key == r.key.Key) {
		return r.key, nil
	}
	err := r.replace(cmp.Or(r.o.Key, newKey()))
	return r.key, err
}

// load reads the note once. An unreadable note counts as missing: another key
// is then made. Callers hold mu.
func (r *keyring) load() error {
	if r.loaded {
		return nil
	}
	b, err := r.o.Journal.Note(keyNote)
	if err != nil {
		return err
	}
	var k key
	if b != nil && (json.Unmarshal(b, &k) != nil || !validKey(k.Key) || k.Old != "" && !validKey(k.Old)) {
		r.o.log().Warn("indexnow: the stored key cannot be read: a new key replaces it")
		k = key{}
	}
	if k.At != r.o.Base {
		k.Seen = time.Time{}
	}
	r.key, r.loaded = k, true
	return nil
}

// replace makes k the key. The previous one is still served for keepOld. Callers hold mu.
func (r *keyring) replace(k string) error {
	now := r.o.now()
	next := key{Key: k, Made: now}
	if r.key.Key != "" && r.key.Key != k {
		next.Old, next.OldUntil = r.key.Key, now.Add(keepOld)
	}
	older := r.key.Old
	if err := r.note(next); err != nil {
		return err
	}
	if older != "" && older != next.Old && older != k {
		r.removeFile(older)
	}
	return nil
}

// note stores a key. Callers hold mu.
func (r *keyring) note(k key) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := r.o.Journal.SetNotes(map[string][]byte{keyNote: b}); err != nil {
		return err
	}
	r.key = k
	return nil
}

// renew makes another key, writes its file, and wakes engines that refused the
// old one. It is the remedy for a burned key: one that an engine no longer accepts
// although the site serves it. The old key's file stays for a day. If the key is
// configured it returns an error: configure another one.
func (r *keyring) renew() (string, error) {
	if r.o.Key != "" {
		return "", errors.New("make indexnow key: the key is given by the configuration: change it there")
	}
	r.mu.Lock()
	err := r.load()
	if err == nil {
		err = r.replace(newKey())
	}
	k := r.key.Key
	r.mu.Unlock()
	if err == nil {
		err = r.writeFile()
	}
	if err != nil {
		return "", fmt.Errorf("make indexnow key: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kick()
	r.kicked, r.kick = context.WithCancel(context.Background())
	return k, nil
}

// seen records that the site serves the key.
func (r *keyring) seen(k key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key.Key != k.Key {
		return nil // replaced meanwhile
	}
	next := r.key
	next.Seen, next.At = r.o.now(), r.o.Base
	return r.note(next)
}

// status makes no key.
func (r *keyring) status() (st KeyStatus, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err = r.load(); err == nil && r.key.Key != "" {
		st = KeyStatus{Key: r.key.Key, URL: r.url(r.key.Key), Made: r.key.Made, Seen: r.key.Seen}
		if r.o.KeyDir != "" {
			st.File = r.file(r.key.Key)
		}
	}
	return st, err
}

// url returns the URL of a key's file.
func (r *keyring) url(k string) string { return r.o.Base + k + ".txt" }

// file returns the path of a key's file in KeyDir.
func (r *keyring) file(k string) string { return filepath.Join(r.o.KeyDir, k+".txt") }

// mayBeSent reports whether a URL lies below Base and is not the file of k or of the key before it.
func (r *keyring) mayBeSent(url string, k key) bool {
	return strings.HasPrefix(url, r.o.Base) && url != r.url(k.Key) && (k.Old == "" || url != r.url(k.Old))
}

// KeyPath returns the URL path of the file that proves the key, such as
// "/0123456789abcdef0123456789abcdef.txt". It makes the key if there is none.
func (s *IndexNow) KeyPath() (string, error) {
	if err := s.init(); err != nil {
		return "", err
	}
	k, err := s.key.current()
	if err != nil {
		return "", fmt.Errorf("indexnow key: %w", err)
	}
	return s.key.base.Path + k.Key + ".txt", nil
}

// WriteKey writes the key's file into KeyDir, for a caller that deploys that directory before anything is sent.
func (s *IndexNow) WriteKey() error {
	err := s.init()
	if err == nil {
		err = s.key.writeFile()
	}
	if err != nil {
		return fmt.Errorf("indexnow key: %w", err)
	}
	return nil
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
		name, ok = strings.CutPrefix(name, s.key.base.Path)
	}
	if !ok || !validKey(name) {
		return "", false
	}
	k, err := s.key.current()
	if err != nil {
		return "", false
	}
	return name, name == k.Key || name == k.Old && s.Options.now().Before(k.OldUntil)
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

// writeFile ensures that KeyDir has the key's file, which a deployment of the
// site may have deleted, and removes the previous key's file when it has expired.
func (r *keyring) writeFile() error {
	if r.o.KeyDir == "" {
		return nil
	}
	k, err := r.current()
	if err != nil {
		return err
	}
	r.fileMu.Lock()
	defer r.fileMu.Unlock()
	if k.Old != "" && over(k.OldUntil, r.o.now(), keepOld) {
		r.removeFile(k.Old)
	}
	path := r.file(k.Key)
	if holds(path, k.Key) {
		return nil
	}
	return atomicfile.Write(path, k.Key, 0o644)
}

// removeFile removes the file of an old key, if it is ours.
func (r *keyring) removeFile(k string) {
	if r.o.KeyDir == "" {
		return
	}
	path := r.file(k)
	if !holds(path, k) {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.o.log().Warn("indexnow: old key file could not be removed", "file", path, "err", err)
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

// check fetches the key's file as an engine would. It is served right, or
// certainly wrong, or neither is known: a firewall may admit engines and not us.
func (r *keyring) check(ctx context.Context, k key) (right, wrong bool, why string) {
	url := r.url(k.Key)
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return false, true, err.Error()
	}
	a := ask(ctx, transport(r.o.HTTP), req, askTime)
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
