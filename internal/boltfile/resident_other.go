//go:build !linux

package boltfile

import "go.etcd.io/bbolt"

// GiveBack does nothing: elsewhere mapped pages stay resident until memory is short.
func GiveBack(*bbolt.Tx) {}
