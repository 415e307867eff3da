//go:build !linux

package main

// twoProcessors reports false: processor affinity is only implemented on Linux.
func twoProcessors() (first, second int, ok bool) { return 0, 0, false }

func stayOn(int) error { return nil }

func yield() error { return nil }
