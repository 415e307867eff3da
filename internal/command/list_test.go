package command_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/command"
)

// The table of options has the kind and the default of each option, and the help does not mention
// --help-json.
func TestOptionTableAsJSON(t *testing.T) {
	c := called(nil, "--help-json")
	var table []command.Option
	if err := json.Unmarshal([]byte(c.stdout), &table); err != nil || c.code != 0 {
		t.Fatalf("code %d: %v: %s", c.code, err, c.stdout)
	}
	kinds := map[string]string{}
	for _, o := range table {
		kinds[o.Name] = o.Kind + " " + o.Default
	}
	for name, want := range map[string]string{"docroot": "string ", "include": "strings ", "max-file": "size 100MB", "grace": "duration 1m", "keep": "bool false", "log-level": "choice error"} {
		if kinds[name] != want {
			t.Errorf("--%s is %q, not %q", name, kinds[name], want)
		}
	}
	if c = called(nil, "-h"); strings.Contains(c.stdout, "help-json") {
		t.Error("help shows --help-json")
	}
}
