package simulate

import (
	"context"

	"github.com/parleyweb/parley/internal/browse"
	"github.com/parleyweb/parley/internal/command"
)

// ReadLogs makes sessions of the requests in the access logs that patterns name. It fails if there are none.
func ReadLogs(ctx context.Context, env *command.Env, patterns []string) (*browse.Visits, error) {
	f := browsing{logs: patterns}
	return f.readLogs(ctx, env)
}
