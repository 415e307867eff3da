package caller

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyweb/parley/server/internal/stat"
)

// Callers are crawlers that a site knows by a bearer token. The zero Callers
// knows nobody. Its methods may be called by many goroutines at once.
//
// The file is checked at requests, once a second at most: a caller removed from it is
// unknown two seconds later. While the file is missing or invalid, or another
// goroutine is still reading it, the callers known before remain, and no others.
type Callers struct {
	Logger *slog.Logger

	path string

	mu      sync.Mutex // guards the fields below
	list    []knownCaller
	looked  time.Time
	looking bool // a goroutine is reading the file: it alone uses the fields below, and nobody waits for it

	text   [sha256.Size]byte // the digest of the text that was parsed last
	fault  error             // the error of that text
	failed string            // why the file could not be used at the last check
}

type knownCaller struct {
	token [sha256.Size]byte // the digest of the token: all have the same length
	who   Caller
}

// Bounds of a file of callers.
const (
	maxCallersFile = 1 << 20 // bytes
	maxCallers     = 1000
	minToken       = 16 // characters: a token that cannot be guessed has more

	// callersRest is how often the file is checked, and for how long it must have
	// been unchanged: a half-written token must not count as a token.
	callersRest = time.Second
)

// Read reads a file of one caller on each line,
//
//	NAME TOKEN [agents]
//
// where NAME is the product token for which robots.txt may have rules, TOKEN
// is sent as "Authorization: Bearer TOKEN", and the word agents allows the caller to
// send programs to be run. Empty lines, and comments from a "#" at the beginning of
// a word, are ignored. Two lines with the same name give one caller two tokens.
// Errors name the line, and never a token.
func Read(path string) (*Callers, error) {
	c := &Callers{path: path, looked: time.Now()}
	b, _, err := readCallersFile(path)
	if err == nil {
		c.text = sha256.Sum256(b)
		c.list, err = parseCallers(b)
	}
	if err != nil {
		return nil, fmt.Errorf("read callers %s: %w", path, err)
	}
	return c, nil
}

// readCallersFile returns the content of a file of callers, and its modification time.
func readCallersFile(path string) (b []byte, written time.Time, err error) {
	f, err := stat.Open(path)
	if err != nil {
		return nil, written, err
	}
	defer f.Close()
	b, err = io.ReadAll(io.LimitReader(f, maxCallersFile+1))
	if err == nil && len(b) > maxCallersFile {
		err = fmt.Errorf("more than %d bytes", maxCallersFile)
	}
	if err != nil {
		return nil, written, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, written, err
	}
	return b, info.ModTime(), nil
}

func (c *Callers) log() *slog.Logger { return cmp.Or(c.Logger, slog.New(slog.DiscardHandler)) }

// known returns the present callers. While one goroutine reads the file, which may
// take long, the others get the callers known before.
func (c *Callers) known() []knownCaller {
	c.mu.Lock()
	list, now := c.list, time.Now()
	if c.path == "" || c.looking || now.Sub(c.looked) < callersRest {
		c.mu.Unlock()
		return list
	}
	c.looking, c.looked = true, now
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list, c.looking = list, false
	}()
	list = c.look(list, now)
	return list
}

// look returns the callers in the file or, if it has not changed or is not valid,
// those known before.
func (c *Callers) look(known []knownCaller, now time.Time) []knownCaller {
	b, written, err := readCallersFile(c.path)
	if sum := sha256.Sum256(b); err == nil && sum == c.text {
		err = c.fault
	} else if err == nil {
		if now.Sub(written) < callersRest && time.Since(written) >= 0 {
			return known // the next check reads it
		}
		var list []knownCaller
		list, err = parseCallers(b)
		c.text, c.fault = sum, err
		if err == nil {
			known = list
			c.log().Info("callers file reloaded", "path", c.path, "tokens", len(list))
		}
	}
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != c.failed && failed != "" {
		c.log().Warn("callers file could not be read: the previous callers stay valid", "path", c.path, "err", err)
	}
	c.failed = failed
	return known
}

func parseCallers(b []byte) (list []knownCaller, err error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, maxCallersFile+1)
	for at := 1; lines.Scan(); at++ {
		words := strings.Fields(lines.Text())
		for i, w := range words {
			if w[0] == '#' {
				words = words[:i]
				break
			}
		}
		if len(words) == 0 {
			continue
		}
		k, err := parseCaller(words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		for i := range list {
			if list[i].token == k.token {
				return nil, fmt.Errorf("line %d: same token as %s", at, list[i].who.Name)
			}
			if strings.EqualFold(list[i].who.Name, k.who.Name) && list[i].who.Agents != k.who.Agents {
				return nil, fmt.Errorf("line %d: the word agents must be on all lines of %s or on none", at, k.who.Name)
			}
		}
		if len(list) == maxCallers {
			return nil, fmt.Errorf("line %d: more than %d callers", at, maxCallers)
		}
		list = append(list, k)
	}
	return list, lines.Err()
}

func parseCaller(words []string) (k knownCaller, err error) {
	switch {
	case len(words) < 2 || len(words) > 3:
		return k, errors.New("want NAME TOKEN, or NAME TOKEN agents")
	case len(words) == 3 && words[2] != "agents":
		return k, errors.New("after NAME and TOKEN, only the word agents is allowed")
	case !isProductToken(words[0]):
		return k, errors.New("a name is letters, '-' and '_', as in the User-agent lines of robots.txt")
	case len(words[1]) < minToken:
		return k, fmt.Errorf("the token of %s has fewer than %d characters", words[0], minToken)
	}
	return knownCaller{sha256.Sum256([]byte(words[1])), Caller{Name: words[0], Agents: len(words) == 3}}, nil
}

// isProductToken reports whether s is a product token of RFC 9309, of at most 100 characters.
func isProductToken(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// Agents reports whether any caller may send programs.
func (c *Callers) Agents() bool {
	return slices.ContainsFunc(c.known(), func(k knownCaller) bool { return k.who.Agents })
}

var errUnknownToken = errors.New("unknown token: send the one that this site gave you as Authorization: Bearer TOKEN, or none")

// Identify returns the caller with a request's bearer token, and the anonymous one if there
// is none. It takes the same time for every token of whatever length, so that none can be
// guessed piece by piece. It is made for the Identify of a site's Notifier.
func (c *Callers) Identify(r *http.Request) (Caller, error) {
	said := r.Header.Values("Authorization")
	if len(said) == 0 {
		return Caller{}, nil
	}
	scheme, token, _ := strings.Cut(said[0], " ")
	if len(said) == 1 && !strings.EqualFold(scheme, "Bearer") {
		return Caller{}, nil // a password for a proxy, for example
	}
	if len(said) > 1 {
		return Caller{}, errUnknownToken
	}
	given := sha256.Sum256([]byte(strings.TrimSpace(token)))
	list, found := c.known(), -1
	for i := range list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], list[i].token[:]), i, found)
	}
	if found < 0 {
		return Caller{}, errUnknownToken
	}
	return list[found].who, nil
}
