package main

import "github.com/parleyweb/parley/examples/agents/guest"

//go:wasmexport parley_alloc
func alloc(size uint32) uint32 { return guest.Alloc(size) }

//go:wasmexport parley_change
func change(_, size uint32) uint64 { return guest.Answer(size, decide) }

// The site calls both functions, but linters would report them as unused.
var _ = [...]any{alloc, change}
