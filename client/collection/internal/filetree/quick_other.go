//go:build !linux

package filetree

import "os"

// Systems other than Linux go the long way.

func (t top) create(string) *os.File { return nil }
func (t top) move(Op) bool           { return false }
func (t top) lacks(string) bool      { return false }
func (t top) sync() (bool, error)    { return false, nil }
