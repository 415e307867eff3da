package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/machine"
	"github.com/parleyweb/parley/internal/must"
)

// printedRows returns the rows of a table, by their names.
func printedRows(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	code, out, said := program(t.Context(), append([]string{"simulate", "paper", "--json"}, args...)...)
	var tables []printedTable
	if err := json.Unmarshal([]byte(out), &tables); code != 0 || err != nil || len(tables) != 1 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, said)
	}
	rows := map[string][]string{}
	for _, row := range tables[0].Rows {
		rows[row[0]] = row[1:]
	}
	return rows
}

// number is the number at the beginning of a cell.
func number(t *testing.T, cell string) float64 {
	t.Helper()
	cell, _, _ = strings.Cut(strings.TrimSuffix(cell, "%"), "/")
	return must.Get(strconv.ParseFloat(cell, 64))
}

// Polls of a recorded page see one change at most, and each knows when the last one was. Of real pages, polls see the less the seldomer
// they come, and the number of changes seen by them errs by just what they miss.
func TestPollsMissChanges(t *testing.T) {
	v := pushedVisits([]float64{.5, 1.2, 1.7, 9.9, 10.2}, 1, 10)
	if v.n != 10 || v.x != 3 || v.span != 10 || math.Abs(v.quiet-(.5+.3+7+.1)) > 1e-9 || len(v.checks) != 10 || !v.checks[9].Changed || v.checks[8].Changed {
		t.Errorf("%+v", v)
	}
	rows := printedRows(t, "--only", "pushes", "--data", machine.Data(t))
	for _, trace := range []string{"python-peps", "astro-docs", "php-net", "endoflife-date"} {
		before := 101.
		for _, days := range []int{1, 7, 30} {
			row := rows[fmt.Sprintf("%s, %d days", trace, days)]
			seen, counted := number(t, row[1]), number(t, row[2])
			if seen > before || seen < 20 || math.Abs(seen-100-100*counted) > 1.01 {
				t.Errorf("%s, every %d days: %v %% seen, before %v %%; their number is off by %v", trace, days, seen, before, counted)
			}
			before = seen
		}
	}
}

// Each scheme delivers fewer bytes than requests for all pages, push is fresher than polls, and the few largest sites have most of the
// pages, so that with them nearly all is gained.
func TestSchemesOfManySites(t *testing.T) {
	rows := printedRows(t, "--quick", "--only", "schemes")
	if len(rows) != 14 { // and the head
		t.Fatalf("%d rows: %v", len(rows), rows)
	}
	none := rows["none"]
	for _, s := range schemes() {
		row := rows[s.name]
		bytes, few, some := number(t, row[1]), number(t, row[5]), number(t, row[7])
		if s.name == "none" {
			if bytes != headerBytes+pageBytes || few != bytes || some != bytes || number(t, row[0]) != 1 {
				t.Errorf("without cooperation: %v", row)
			}
			continue
		}
		all := number(t, none[1])
		if !(bytes < some && some < few && few < all) || some > all-.8*(all-bytes) {
			t.Errorf("%s: %v bytes, %v by the largest tenth, %v by the largest hundredth, %v by none", s.name, bytes, some, few, all)
		}
		fresh, polled := number(t, row[2]), number(t, none[2])
		switch {
		case s.push && !s.selects && fresh != 1, !s.push && !s.selects && fresh != polled, s.push && s.selects && math.Abs(fresh-wantedShare) > .02, !s.push && s.selects && fresh >= polled:
			t.Errorf("%s: freshness %v, %v without cooperation", s.name, fresh, polled)
		}
	}
}

// The means of several runs have their polls, too.
func TestPollsOfOutdatedSites(t *testing.T) {
	for web, row := range printedRows(t, "--quick", "--only", "outdated") {
		if web != "web" && !(number(t, row[1]) > 0) {
			t.Errorf("%s: %v", web, row)
		}
	}
}
