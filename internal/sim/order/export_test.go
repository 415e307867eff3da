package order

import "slices"

// Kendall is for the test of the computation.
var Kendall = kendall

// Telling returns the hosts that publish a manifest.
func Telling(r Run) (hosts []uint32) {
	for start := range r.tells() {
		hosts = append(hosts, r.Web.Graph.Host[start])
	}
	slices.Sort(hosts)
	return hosts
}
