//go:build !linux

package boltfile

import "go.etcd.io/bbolt"

// ReleasePages does nothing: elsewhere mapped pages stay resident until memory is short.
func ReleasePages(*bbolt.Tx) {}
