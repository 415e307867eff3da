// Package agent runs programs that crawlers have uploaded: remote agents (C14). A
// crawler that wants only some changes, or something derived from each page, such as
// a part of its index (C15), uploads a program that selects the changes or computes
// the output, and the site runs it beside its journal.
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
//	parley_alloc(size i32) i32              address of size writable bytes
//	parley_change(at i32, size i32) i64     the answer: address << 32 | size
//	_initialize()                           called once at first, if it exists
//
// For each change the site calls parley_alloc, writes the question to the returned
// address, and calls parley_change with it. It reads the answer from memory before it
// calls anything else. The question has three parts, each its length as a
// 32-bit little-endian number followed by as many bytes:
//
//  1. the change, as the message "ev" of package protocol, in JSON; its member to has no meaning here;
//  2. the page as it is now, without content coding;
//  3. the page as it was before, if the site has stored it.
//
// The length 0xFFFFFFFF says that a page is not available, and no bytes follow: it was
// not stored, has changed again meanwhile, has more than [maxPage] bytes, or did not
// exist before. The answer is at most 1 + [protocol.MaxInline] bytes: first 1 if the change is
// to be sent, or 0 if not, and then the output to send with it.
//
// It may import functions of wasi_snapshot_preview1, since compilers need them. They
// behave as for a program without arguments, environment, files, input or network,
// whose clocks begin at the same instant each time, and whose random numbers are
// the same each time. Standard output is discarded, and so is standard error, except
// that its beginning is reported to the sender when the program fails. proc_exit is a
// failure.
//
// With Go 1.24 or later a program is built by
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags "-s -w" -o agent.wasm
//
// from a package that has //go:wasmexport above both functions, and an empty
// main. See examples/agents.
//
// # What it can rely on
//
// It runs on creates, updates and moves; a delete is always sent, and so is a
// move, whatever it answers, since a reader that has seen a page must learn that it is
// gone. It sees only changes that its sender may see and that match the other
// conditions of the request.
//
// Its answer must depend on the question alone: memory may or may not persist from one
// call to the next, and the site may cache an answer.
//
// A call that fails in memory used before is retried once in fresh memory, within the
// same time limit. If that fails too, or no slot becomes free in time, the change is
// sent without output, so that nothing is lost. After [Options.Failures] failures
// without an answer between them the program is disabled for a while, and its sender
// gets the reason. Other senders of the same program can still use it.
//
// # What it may cost
//
// Each program runs in a process of its own, which is killed when it takes longer than
// [Options.Time] for an answer: no loop, recursion or single instruction delays other
// work. The process has at most [Options.Memory] bytes of WebAssembly memory and, on
// Linux, [processData] bytes in all, runs at low priority if the system supports that,
// and only [Options.Running] of them run at a time, one of each sender. It is this same
// executable, started again: see [Main].
package agent

const (
	// maxProgram is the size of the largest program, in bytes. Programs built
	// with Go begin at 2 MiB.
	maxProgram = 8 << 20

	// maxPage is the size of the largest page passed to a program, in bytes.
	maxPage = 4 << 20
)
