package server

import (
	"bufio"
	"bytes"
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
// The file is looked at whenever somebody asks, once a second at most: who is
// taken out of it is unknown two seconds later. While it is not there, or not
// what it should be, or somebody is still reading it, those who were known stay
// known, and nobody else is.
type Callers struct {
	Logger *slog.Logger

	path string

	mu      sync.Mutex // guards what follows
	list    []knownCaller
	looked  time.Time
	looking bool // somebody looks at the file: what follows is his alone, and nobody waits for him

	text   [sha256.Size]byte // the digest of the text that was parsed last
	fault  error             // of that text
	failed string            // why the file could not be taken in when it was looked at last
}

type knownCaller struct {
	token [sha256.Size]byte // its digest: all are as long
	who   Caller
}

// Bounds of a file of callers.
const (
	maxCallersFile = 1 << 20 // bytes
	maxCallers     = 1000
	minToken       = 16 // characters: one that cannot be guessed has more

	// callersRest is how often the file is looked at, and how long it must have
	// rested: half of a token, while it is being written, is not to be one.
	callersRest = time.Second
)

// ReadCallers reads a file of one caller on each line,
//
//	NAME TOKEN [agents]
//
// where NAME is the product token by which robots.txt may have rules for it,
// TOKEN what it sends as "Authorization: Bearer TOKEN", and the word agents
// says that it may send programs to be run. Empty lines, and what follows a
// "#" at the beginning of a word, say nothing. Two lines of one name are two tokens of one
// caller. Errors name the line, and never a token.
func ReadCallers(path string) (*Callers, error) {
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

// readCallersFile returns what is in a file of callers, and when it was written.
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

// known returns those who are known now. While one of those who ask looks at
// the file, which may take long, the others have those who were known.
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

// look returns those whom the file says from now on, or those who were known if
// it says nothing new, or nothing that can be read.
func (c *Callers) look(known []knownCaller, now time.Time) []knownCaller {
	b, written, err := readCallersFile(c.path)
	if sum := sha256.Sum256(b); err == nil && sum == c.text {
		err = c.fault
	} else if err == nil {
		if now.Sub(written) < callersRest && time.Since(written) >= 0 {
			return known // the next look takes it
		}
		var list []knownCaller
		list, err = parseCallers(b)
		c.text, c.fault = sum, err
		if err == nil {
			known = list
			orDiscard(c.Logger).Info("the file of callers has changed", "path", c.path, "tokens", len(list))
		}
	}
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != c.failed && failed != "" {
		orDiscard(c.Logger).Warn("the file of callers cannot be read: those who were known stay known", "path", c.path, "err", err)
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
				return nil, fmt.Errorf("line %d: its token is also that of %s", at, list[i].who.Name)
			}
			if strings.EqualFold(list[i].who.Name, k.who.Name) && list[i].who.Agents != k.who.Agents {
				return nil, fmt.Errorf("line %d: another line says otherwise of the agents of %s", at, k.who.Name)
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
		return k, errors.New("after NAME and TOKEN there may only be the word agents")
	case !isProductToken(words[0]):
		return k, errors.New("a name is letters, '-' and '_', as in the User-agent lines of robots.txt")
	case len(words[1]) < minToken:
		return k, fmt.Errorf("the token of %s has less than %d characters", words[0], minToken)
	}
	return knownCaller{sha256.Sum256([]byte(words[1])), Caller{Name: words[0], Agents: len(words) == 3}}, nil
}

// isProductToken reports whether s is one as RFC 9309 has it, of a length that somebody would choose.
func isProductToken(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 100
}

// Agents reports whether any of them may send programs.
func (c *Callers) Agents() bool {
	return slices.ContainsFunc(c.known(), func(k knownCaller) bool { return k.who.Agents })
}

var errUnknownToken = errors.New("this site does not know that token: send the one that it gave you as Authorization: Bearer TOKEN, or none")

// Identify says who asks, by a bearer token: nobody in particular where there
// is none. It takes as long for every token of whatever length, so that none can be
// guessed piece by piece. It is made for [Notifier].Identify.
func (c *Callers) Identify(r *http.Request) (Caller, error) {
	said := r.Header.Values("Authorization")
	if len(said) == 0 {
		return Caller{}, nil
	}
	scheme, token, _ := strings.Cut(said[0], " ")
	if len(said) == 1 && !strings.EqualFold(scheme, "Bearer") {
		return Caller{}, nil // a proxy's own password, for one
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
