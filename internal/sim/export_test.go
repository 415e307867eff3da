package sim

// This file exports internals to the tests.

var Characters = characters
var OpenTrace = openTrace
var ReadTrace = readTrace

func (x *World) Check() error { return x.check() }
func (x *World) Some(share float64, most bool, speak Site, seed uint64) *World {
	return x.some(share, most, speak, seed)
}

// Changes returns the number of changes a day, of all pages.
func (x *World) Changes() (rate float64) {
	for i := range x.Pages {
		rate += x.Pages[i].Rate
	}
	return rate
}
