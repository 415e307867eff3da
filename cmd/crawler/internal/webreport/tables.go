package webreport

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/atomicfile"
	"github.com/parleyweb/parley/internal/census"
)

// A table is one of a census, whose cells are string, int64, float64, or nil for what is not known.
type table struct {
	Name    string   `json:"name"`
	Source  string   `json:"source"`
	Columns []string `json:"columns"`
	Keys    int      `json:"keys"` // how many columns say what a row is about
	Rows    [][]any  `json:"rows"`
}

// tables are those of one collection.
type tables []table

func newTables(list []census.Table) (all tables) {
	for _, t := range list {
		all = append(all, table(t))
	}
	return all
}

// table returns a table by its name, one without columns if there is none.
func (ts tables) table(name string) *table {
	for i := range ts {
		if ts[i].Name == name {
			return &ts[i]
		}
	}
	return &table{Name: name}
}

// number returns a cell as a number, 0 if it is none.
func number(cell any) float64 {
	switch x := cell.(type) {
	case int64:
		return float64(x)
	case float64:
		return x
	}
	return 0
}

// column returns the numbers of a column, nil if there is none of that name.
func (t *table) column(name string) (list []float64) {
	if c := slices.Index(t.Columns, name); c >= 0 {
		for _, row := range t.Rows {
			list = append(list, number(row[c]))
		}
	}
	return list
}

// find returns the cell in the row with this first key, and a column; nil if there is none.
func (t *table) find(column, key string) any {
	if i := slices.IndexFunc(t.Rows, func(row []any) bool { return cellText(row[0]) == key }); i >= 0 {
		return cell(t.Rows[i], slices.Index(t.Columns, column))
	}
	return nil
}

// figure returns a number of the summary, 0 if it has none of that name.
func (ts tables) figure(name string) float64 { return number(ts.table("summary").find("value", name)) }

// joined puts the rows of two tables with equal keys side by side: for each number the first, the second, and the first less the second.
// A row that one of them lacks has no number there; counts are 0 then.
func joined(a, b *table, name, other string) table {
	t := table{Name: a.Name, Source: a.Source, Columns: slices.Clone(a.Columns[:a.Keys]), Keys: a.Keys}
	for _, c := range a.Columns[a.Keys:] {
		t.Columns = append(t.Columns, c+": "+name, c+": "+other, c+": difference")
	}
	key := func(row []any) string { return fmt.Sprintf("%#v", row[:a.Keys]) }
	seconds, shown := map[string][]any{}, map[string]bool{}
	for _, row := range b.Rows {
		seconds[key(row)] = row
	}
	add := func(k string, keys, first, second []any) {
		shown[k] = true
		row := slices.Clone(keys)
		for i := a.Keys; i < len(a.Columns); i++ {
			x, y := cell(first, i), cell(second, i)
			row = append(row, x, y, less(x, y))
		}
		t.Rows = append(t.Rows, row)
	}
	for _, row := range a.Rows {
		add(key(row), row[:a.Keys], row, seconds[key(row)])
	}
	for _, row := range b.Rows {
		if !shown[key(row)] {
			add(key(row), row[:a.Keys], nil, row)
		}
	}
	if a.Keys > 0 && !slices.ContainsFunc(t.Rows, func(row []any) bool { _, text := row[0].(string); return text }) {
		slices.SortStableFunc(t.Rows, func(x, y []any) int { return cmp.Compare(number(x[0]), number(y[0])) })
	}
	return t
}

func cell(row []any, i int) any {
	if i >= 0 && i < len(row) {
		return row[i]
	}
	return nil
}

// less returns x less y, of which one may be nil: no thing was counted then.
func less(x, y any) any {
	i, count := x.(int64)
	j, counts := y.(int64)
	f, isNumber := x.(float64)
	g, areNumbers := y.(float64)
	switch {
	case count && (counts || y == nil), counts && x == nil:
		return i - j
	case isNumber && areNumbers:
		return rounded(f - g)
	}
	return nil
}

// rounded returns a number with 6 digits, so that a difference has no more than its terms.
func rounded(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'e', 5, 64), 64)
	return x
}

// all returns the tables to show: side by side with those of the other collection, if there is one.
func (v *view) all() (list []table) {
	for i := range v.tables {
		list = append(list, v.joined(&v.tables[i]))
	}
	return list
}

func (v *view) joined(t *table) table {
	if len(v.sources(t.Name)) == 1 {
		return *t
	}
	return joined(t, v.others.table(t.Name), v.Name, v.Other)
}

// writeCSV writes each table to a file, each of them whole or not at all.
func (v *view) writeCSV(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write tables: %w", err)
	}
	for _, t := range v.all() {
		var b strings.Builder
		w := csv.NewWriter(&b)
		w.Write(t.Columns)
		for _, row := range t.Rows {
			line := make([]string, len(row))
			for i, cell := range row {
				line[i] = cellText(cell)
			}
			w.Write(line)
		}
		w.Flush() // into memory
		if err := atomicfile.Write(filepath.Join(dir, t.Name+".csv"), b.String(), 0o644); err != nil {
			return fmt.Errorf("write table %s: %w", t.Name, err)
		}
	}
	return nil
}

// cellText formats a cell for programs.
func cellText(cell any) string {
	switch x := cell.(type) {
	case string:
		return x
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return ""
}
