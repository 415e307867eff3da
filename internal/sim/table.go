package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parleyweb/parley/internal/coding"
)

// readTable reads comma-separated values, compressed or not, of so many bytes at most when they are not. The
// first line names the columns, some of which f gets of each row that follows; the slice is reused. One whose name ends in "?"
// may be missing: then it is empty.
func readTable(r io.Reader, most int64, columns []string, f func(row []string) error) error {
	plain, err := coding.NewReader(r)
	if err != nil {
		return err
	}
	defer plain.Close()
	limit := &io.LimitedReader{R: plain, N: most + 1}
	rows := csv.NewReader(limit)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	at, values := make([]int, len(columns)), make([]string, len(columns))
	for i, name := range columns {
		name, optional := strings.CutSuffix(name, "?")
		if at[i] = slices.Index(header, name); at[i] < 0 && !optional {
			return fmt.Errorf("no column %q", name)
		}
	}
	for {
		row, err := rows.Read()
		if limit.N <= 0 {
			return fmt.Errorf("more than %d MB", most>>20)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for i, j := range at {
			if j >= 0 {
				values[i] = row[j]
			}
		}
		if err := f(values); err != nil {
			line, _ := rows.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}
