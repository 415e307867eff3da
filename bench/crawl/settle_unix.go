//go:build unix

package main

import "syscall"

// settle waits until what was written is on the disk.
func settle() { syscall.Sync() }
