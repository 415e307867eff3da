//go:build !linux && !darwin

package main

func ownerOf(string) (uid uint32, ok bool) { return 0, false }
