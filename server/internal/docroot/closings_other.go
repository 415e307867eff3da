//go:build !linux

package docroot

// closings reports nothing: only Linux tells when a writer closes a file.
type closings struct{}

func (*closings) open()                                 {}
func (*closings) close() bool                           { return false }
func (*closings) add(string)                            {}
func (*closings) remove(string)                         {}
func (*closings) has(string) bool                       { return false }
func (*closings) read(func(path string, e event)) error { return nil }
