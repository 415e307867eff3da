package boltfile

import (
	"syscall"

	"go.etcd.io/bbolt"
)

// GiveBack tells the system that the pages of the mapped file need not stay
// resident. They stay in the page cache, and come back when they are touched.
// tx is open, so that the mapping cannot go.
func GiveBack(tx *bbolt.Tx) {
	// Nothing is lost if the system does not want to know.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
}
