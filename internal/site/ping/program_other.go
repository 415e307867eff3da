//go:build !unix

package ping

import (
	"context"
	"os/exec"
)

// program returns a command that is killed when ctx ends.
func program(ctx context.Context, words []string) *exec.Cmd {
	return exec.CommandContext(ctx, words[0], words[1:]...)
}
