//go:build unix

package ping

import (
	"context"
	"os/exec"
	"syscall"
)

// program returns a command in a process group of its own, all of which is killed when ctx ends.
func program(ctx context.Context, words []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
