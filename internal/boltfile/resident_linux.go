package boltfile

import (
	"syscall"

	"go.etcd.io/bbolt"
)

// ReleasePages tells the system that the mapped pages of the file need not stay resident. They stay in the page
// cache, and return on the next access. tx must be open, so that the mapping stays.
func ReleasePages(tx *bbolt.Tx) {
	// An error can be ignored: it is only a hint.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
}
