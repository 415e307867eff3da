package sim

// This file exports internals to the tests.

var Characters = characters
var OpenTrace = openTrace
var ReadTrace = readTrace

func (x *World) Check() error { return x.check() }
func (x *World) Some(share float64, most bool, speak Site, seed uint64) *World {
	return x.some(share, most, speak, seed)
}

func (x *World) Changes() float64 { return x.changes() }
