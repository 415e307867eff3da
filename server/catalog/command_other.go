//go:build !unix

package catalog

import (
	"context"
	"os/exec"
)

// shell returns a command that is killed when ctx ends.
func shell(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "cmd", "/C", line)
}
