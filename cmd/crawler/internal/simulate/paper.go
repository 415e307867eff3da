package simulate

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/parleyweb/parley/internal/command"
)

// A paperTable is a table of "crawler simulate paper".
type paperTable struct {
	name    string
	heading string // what it is, and which of its figures are bounds
	data    string // the folder of recorded data that it needs; "": none
	build   func(*paper, context.Context) (*sheet, error)
}

// paper has the settings of all tables.
type paper struct {
	trial
	quick, asJSON bool
	only          words
}

// scaled returns n pages, far fewer for a quick look.
func (p *paper) scaled(n int) int {
	if p.quick {
		return max(200, n/10)
	}
	return n
}

func paperTables() []paperTable {
	return slices.Concat(analyticTables(), measuredTables(), recordedTables(), batchTables())
}

func simulatePaper() *command.Command {
	p := &paper{}
	var names []string
	for _, t := range paperTables() {
		names = append(names, t.name)
	}
	return &command.Command{
		Name:    "paper",
		Summary: "print all tables that compare the policies",
		Usage:   "[options]",
		Help: `
All tables are computed anew, in a few minutes on two cores. The first line of a
table describes it and its bounds.

    crawler simulate paper
    crawler simulate paper --only webs,manifests
    crawler simulate paper --data /srv/parley-data > tables.txt

Tables: ` + wrapped(names, 8) + `.

Tables of recorded histories need --data, and are left out without it.`,
		LogLevel: slog.LevelWarn,
		File:     command.File{Foreign: []string{"*"}},
		Flags: append(p.flags()[:2],
			command.Bind("seeds", &p.seeds, "visit pages with `N` consecutive seeds from --seed on, and print means"),
			command.Bind("only", &p.only, "print the tables `NAME,...` and no others"),
			command.Bind("quick", &p.quick, "simulate webs a tenth as large, for rough figures only"),
			command.Bind("json", &p.asJSON, "print the tables as JSON")),
		Run: p.run,
	}
}

// A printedTable is a table as JSON.
type printedTable struct {
	Name    string     `json:"name"`
	Heading string     `json:"heading"`
	Skipped string     `json:"skipped,omitempty"`
	Rows    [][]string `json:"rows,omitempty"` // the first has the names of the columns
	names   int
}

func (p *paper) run(ctx context.Context, env *command.Env) error {
	if err := p.check(); err != nil {
		return err
	}
	tables := paperTables()
	for _, name := range p.only {
		if !slices.ContainsFunc(tables, func(t paperTable) bool { return t.name == name }) {
			return command.Misusef("--only %s: unknown table: crawler simulate paper -h lists them", name)
		}
	}
	tables = slices.DeleteFunc(tables, func(t paperTable) bool { return len(p.only) > 0 && !slices.Contains(p.only, t.name) })
	printed := make([]printedTable, len(tables))
	made := make([]chan struct{}, len(tables))
	for i := range made {
		made[i] = make(chan struct{})
	}
	// Some tables keep one processor busy and others all: they are built in parallel, and printed in order.
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		failed <- each(ctx, len(tables), func(ctx context.Context, i int) (err error) {
			began := time.Now()
			if printed[i], err = p.table(ctx, tables[i]); err == nil {
				env.Log.Info("table", "name", tables[i].name, "took", time.Since(began).Round(time.Millisecond))
				close(made[i])
			}
			return err
		})
	}()
	for i := range tables {
		select {
		case err := <-failed:
			if err != nil {
				return err
			}
			failed <- nil
		case <-made[i]:
		}
		if !p.asJSON {
			if err := printed[i].write(env.Stdout); err != nil {
				cancel()
				<-failed
				return err
			}
		}
	}
	if err := <-failed; err != nil {
		return err
	}
	if p.asJSON {
		return env.PrintJSON(printed)
	}
	return nil
}

// table builds one table.
func (p *paper) table(ctx context.Context, t paperTable) (printedTable, error) {
	out := printedTable{Name: t.name, Heading: t.heading}
	if t.data != "" && p.folder(t.data) == "" {
		out.Skipped = fmt.Sprintf("left out: --data must name a directory with a folder %q", t.data)
		return out, nil
	}
	s, err := t.build(p, ctx)
	if err != nil {
		return out, fmt.Errorf("table %s: %w", t.name, err)
	}
	out.Rows, out.names = s.rows, s.names
	return out, nil
}

func (t *printedTable) write(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n\n", t.Name, t.Heading)
	if t.Skipped != "" {
		fmt.Fprintln(w, t.Skipped)
	}
	s := sheet{names: t.names, rows: t.Rows}
	if err := s.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
