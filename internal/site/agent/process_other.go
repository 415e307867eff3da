//go:build !linux

package agent

import "syscall"

const processData = 768 << 20

func restrict() {}

func attributes() *syscall.SysProcAttr { return nil }
