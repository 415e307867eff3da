package sim

// This file exports internals to the tests.

var Characters = characters
var OpenTrace = openTrace
var ReadTrace = readTrace

func (x *World) Check() error { return x.check() }
func (x *World) MostImportant(share float64, speak Site) *World {
	return x.some(share, byWeight, speak, 1)
}

// Changes returns the number of changes a day, of all pages.
func (x *World) Changes() (rate float64) {
	for i := range x.Pages {
		rate += x.Pages[i].Rate
	}
	return rate
}
