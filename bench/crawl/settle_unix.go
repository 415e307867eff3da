//go:build unix

package main

import "syscall"

// settle waits until all writes are on the disk.
func settle() { syscall.Sync() }
