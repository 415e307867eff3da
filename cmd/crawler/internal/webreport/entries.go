package webreport

import (
	"context"

	"github.com/parleyweb/parley/cmd/crawler/internal/simulate"
	"github.com/parleyweb/parley/internal/command"
)

// entries returns the table of the pages at which visitors of a site enter, from its logs (R29).
func entries(ctx context.Context, env *command.Env, logs []string) (*table, error) {
	l, err := simulate.ReadLogs(ctx, env, logs)
	if err != nil {
		return nil, err
	}
	t := &table{Name: "entries", Source: "R29, Castillo 5.5", Columns: []string{"depth", "visits", "entry_pages", "pages"}, Keys: 1}
	for depth, d := range l.Dirs {
		t.Rows = append(t.Rows, []any{int64(depth), d.Sessions, d.Entries, d.Pages})
	}
	return t, nil
}
