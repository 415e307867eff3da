package simulate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
)

// The exponents that the search finds are better than the thesis's own in worlds that it has not seen, the crawler's own policy is better
// than both, none exceeds the bound, and the same seed finds the same again.
func TestSimulateExponents(t *testing.T) {
	page := filepath.Join(t.TempDir(), "e.html")
	args := []string{"simulate", "exponents", "--pages", "300", "--sites", "10", "--days", "60", "--from", "20", "--budget", ".1", "--seeds", "2", "--json", "--chart", page}
	code, out, said := program(t.Context(), args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	var rows []exponentsRow
	must.OK(t, json.Unmarshal([]byte(out), &rows))
	value := map[string]exponentsRow{}
	for _, r := range rows {
		value[r.Policy] = r
		if !(r.Value.Mean > .3 && r.Value.Mean <= r.Bound.Mean+.02) {
			t.Errorf("%s reaches %.4f of %.4f", r.Policy, r.Value.Mean, r.Bound.Mean)
		}
	}
	best, general, priced := value["best"], value["thesis:general"], value["priced"]
	if len(rows) != 7 || best.Tried < 9 || best.Value.Mean < general.Value.Mean || priced.Value.Mean < best.Value.Mean {
		t.Errorf("%d rows; best %.4f after %d trials, general %.4f, priced %.4f", len(rows), best.Value.Mean, best.Tried, general.Value.Mean, priced.Value.Mean)
	}
	if general.Alpha != 1 || general.Gamma != 1 || value["thesis:mirror"].Alpha != 0 || priced.Alpha != 0 {
		t.Errorf("exponents of %v, %v", general, value["thesis:mirror"])
	}
	if _, again, _ := program(t.Context(), args...); again != out {
		t.Errorf("the second run differs:\n%s\n%s", out, again)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "value of the index") {
		t.Errorf("the page: %v", err)
	}
	for _, wrong := range [][]string{{"--policy", "uniform"}, {"--from", "60"}, {"--budget", "0"}} {
		if code, _, said := program(t.Context(), slices.Concat(args, wrong)...); code != 2 || said == "" {
			t.Errorf("%q: exit code %d: %s", wrong, code, said)
		}
	}
}
