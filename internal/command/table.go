package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// Table returns a writer of aligned columns to Stdout. If that is a terminal, lines are cut at its width.
func (e *Env) Table() *tabwriter.Writer {
	out := e.Stdout
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			out = &narrow{out: out, width: width}
		}
	}
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
}

// A narrow writer cuts lines.
type narrow struct {
	out       io.Writer
	width, at int // in characters; 0 is no limit
}

func (n *narrow) Write(b []byte) (int, error) {
	kept := make([]byte, 0, len(b))
	for _, c := range b {
		switch {
		case c == '\n':
			n.at = 0
		case utf8.RuneStart(c):
			n.at++
		}
		if n.at <= n.width || n.width <= 0 {
			kept = append(kept, c)
		}
	}
	if _, err := n.out.Write(kept); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Ask asks the person at the terminal, and returns the answer without spaces around it. ok is false if there is nobody:
// Stdin or Stderr is no terminal, or was closed.
func (e *Env) Ask(question string) (answer string, ok bool) {
	in, isFile := e.Stdin.(*os.File)
	if !isFile || !e.IsTerminal() || !term.IsTerminal(int(in.Fd())) {
		return "", false
	}
	fmt.Fprint(e.Stderr, question, " ")
	line, err := bufio.NewReader(in).ReadString('\n') // a terminal hands over one line at a time
	return strings.TrimSpace(line), err == nil
}
