package command_test

import (
	"bytes"
	"fmt"
	"testing"
	"text/tabwriter"

	"github.com/parleyweb/parley/internal/command"
)

// On a terminal each row of a table is one line, whatever it has in its cells.
func TestTableFitsTerminal(t *testing.T) {
	for width, want := range map[int]string{
		0:  "URL  TITLE\n/ä   Überschrift\n/b   b\n",
		9:  "URL  TITL\n/ä   Über\n/b   b\n",
		40: "URL  TITLE\n/ä   Überschrift\n/b   b\n",
	} {
		var out bytes.Buffer
		w := tabwriter.NewWriter(command.Narrow(&out, width), 0, 0, 2, ' ', 0)
		fmt.Fprint(w, "URL\tTITLE\n/ä\tÜberschrift\n/b\tb\n")
		w.Flush()
		if out.String() != want {
			t.Errorf("at %d:\n%s", width, out.String())
		}
	}
}
