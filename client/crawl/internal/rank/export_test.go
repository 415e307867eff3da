package rank

// Options and Pagerank are for the tests of the computation.
type Options = options

var Pagerank = pagerank
