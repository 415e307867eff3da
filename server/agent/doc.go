// Package agent runs programs that crawlers have sent: remote agents (C14). A
// crawler that cares for some changes only, or for something that it would
// make of each page anyway, such as a part of its index (C15), sends the
// program that decides or makes it, and the site runs it beside its journal.
//
// # What a program is
//
// A program is a WebAssembly module of at most [maxProgram] bytes: version 1 with
// mutable globals, sign extension, saturating conversions, multiple values and
// bulk memory, and nothing else. What follows is frozen: a program that runs
// today runs tomorrow.
//
// It exports
//
//	memory                                  its one memory
//	parley_alloc(size i32) i32              where size bytes may be written
//	parley_change(at i32, size i32) i64     the answer: address << 32 | size
//	_initialize()                           called once at first, if it is there
//
// For each change the site asks parley_alloc for room, writes the question
// there, and calls parley_change with it. The answer is read from memory before
// anything else is called. The question is three parts, each its length as a
// 32-bit little-endian number followed by as many bytes:
//
//  1. the change, as the message "ev" of package protocol, in JSON; its member to says nothing here;
//  2. the page as it is now, without content coding;
//  3. the page as it was before, if the site has kept it.
//
// The length 0xFFFFFFFF says that a page is not to be had, and no bytes follow:
// it was not kept, has changed again meanwhile, has more than [maxPage] bytes, or there
// was none before. The answer is at most 1 + [MaxOutput] bytes: first 1 if the
// change is to be told, or 0 if not, and then what is to be told with it.
//
// It may import functions of wasi_snapshot_preview1, since compilers want them. They are
// those of a program without arguments, environment, files, input or network,
// whose clocks begin at the same instant each time, and whose random numbers are
// the same each time. What it writes to standard error is thrown away, but that the
// beginning is told to its sender when it fails; what it writes to standard
// output is thrown away. proc_exit is a failure.
//
// With Go 1.24 or later a program is built by
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags "-s -w" -o agent.wasm
//
// from a package that has //go:wasmexport above both functions, and an empty
// main. See examples/agents.
//
// # What it may count on
//
// It is asked about creates, updates and moves; a delete is always told, and so is a
// move, whatever it answers, since whoever was told of a page must learn that it has gone.
// It is asked about what its sender may see, after the other conditions of the request.
//
// Its answer must depend on the question alone: the memory of one call may be
// there at the next, or not, and an answer may be given again without asking.
//
// What fails in memory that was used before is tried once more in fresh memory,
// within the same time. Where it fails, or its turn does not come in time, the change is told without
// output: nothing is lost by that. After [Options.Failures] failures without an
// answer between them it is out of use for a while, and its sender is told why.
// Others who have sent the same program go on with it.
//
// # What it may cost
//
// Each program runs in a process of its own, that is killed when it takes
// longer than [Options.Time] for an answer: no loop, recursion or single instruction
// holds up anybody else. The process has at most [Options.Memory] bytes of
// WebAssembly memory and, on Linux, [processData] bytes in all, yields to others where the system
// knows how, and only [Options.Running] of them run at a time, one of each sender. It is this same
// executable, started again: see [Main].
package agent

const (
	// maxProgram is the size of the largest program, in bytes. Those that Go
	// makes begin at 2 MiB.
	maxProgram = 8 << 20

	// maxPage is the size of the largest page that a program is shown, in bytes.
	maxPage = 4 << 20

	// MaxOutput is how much may be told with a change, in bytes: protocol.MaxInline.
	MaxOutput = 256 << 10
)
