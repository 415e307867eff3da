//go:build !unix

package main

// settle waits for nothing, where no program may sync them all.
func settle() {}
