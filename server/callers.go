package server

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Callers are crawlers that a site knows by a bearer token. The zero Callers
// knows nobody. Identify may be called by many goroutines at once.
type Callers struct{ list []knownCaller }

type knownCaller struct {
	token [sha256.Size]byte // its digest: all are as long
	who   Caller
}

// Bounds of a file of callers.
const (
	maxCallersFile = 1 << 20 // bytes
	maxCallers     = 1000
	minToken       = 16 // characters: one that cannot be guessed has more
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
	f, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("read callers: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCallersFile+1))
	if err == nil && len(b) > maxCallersFile {
		err = fmt.Errorf("more than %d bytes", maxCallersFile)
	}
	var c *Callers
	if err == nil {
		c, err = parseCallers(b)
	}
	if err != nil {
		return nil, fmt.Errorf("read callers %s: %w", path, err)
	}
	return c, nil
}

func parseCallers(b []byte) (*Callers, error) {
	c := &Callers{}
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
		for i := range c.list {
			if c.list[i].token == k.token {
				return nil, fmt.Errorf("line %d: its token is also that of %s", at, c.list[i].who.Name)
			}
			if strings.EqualFold(c.list[i].who.Name, k.who.Name) && c.list[i].who.Agents != k.who.Agents {
				return nil, fmt.Errorf("line %d: another line says otherwise of the agents of %s", at, k.who.Name)
			}
		}
		if len(c.list) == maxCallers {
			return nil, fmt.Errorf("line %d: more than %d callers", at, maxCallers)
		}
		c.list = append(c.list, k)
	}
	return c, lines.Err()
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
	return slices.ContainsFunc(c.list, func(k knownCaller) bool { return k.who.Agents })
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
	found := -1
	for i := range c.list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], c.list[i].token[:]), i, found)
	}
	if found < 0 {
		return Caller{}, errUnknownToken
	}
	return c.list[found].who, nil
}
