package command

import (
	"fmt"
	"os"
	"strings"
)

// shortestToken is the minimum length of a token, in bytes.
const shortestToken = 16

// ReadTokens reads the file of tokens that an option names, one a line. Empty lines, and those that begin with "#", are ignored.
// There are none if path is empty; a file without any is an error.
func ReadTokens(option, path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", option, err)
	}
	var tokens []string
	for token := range strings.Lines(string(text)) {
		token = strings.TrimSpace(token)
		switch {
		case token == "" || token[0] == '#':
		case len(token) < shortestToken || strings.ContainsAny(token, " \t"):
			return nil, fmt.Errorf("--%s %s: a token has fewer than %d characters, or contains a space: \"openssl rand -hex 16\" makes a good one", option, path, shortestToken)
		default:
			tokens = append(tokens, token)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("--%s %s: the file has no token", option, path)
	}
	return tokens, nil
}
