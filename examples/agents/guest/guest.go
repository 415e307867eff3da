// Package guest is shared by agents: it reads the question that a site sends them, as defined by package
// internal/site/agent, and returns the answer. It may be copied; an agent needs nothing else of Parley.
package guest

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"runtime/debug"
	"unsafe"
)

// A Question is a site's question. A page is nil if the site does not have it.
type Question struct {
	Change Change
	Page   []byte // as it is now
	Before []byte // as it was before
}

// A Change is the site's data about a change.
type Change struct {
	Op   string `json:"op"` // create, update or move
	URL  string `json:"url"`
	From string `json:"from"` // the old URL, if Op is move
	Type string `json:"type"`
	Hash string `json:"hash"`
	Prev string `json:"prev"`
}

// The memory into which the site writes a question, and from which it reads the answer. An agent gets one
// question at a time.
var question, answer []byte

// collectAt is the memory use at which the garbage collector works harder, in bytes: an agent has 64 MiB.
const collectAt = 40 << 20

// Alloc is parley_alloc.
func Alloc(size uint32) uint32 {
	debug.SetMemoryLimit(collectAt)
	question = make([]byte, max(size, 1))
	return uint32(uintptr(unsafe.Pointer(&question[0])))
}

// Answer is parley_change: it asks decide whether the change is to be delivered, and with which output.
func Answer(size uint32, decide func(*Question) (tell bool, output []byte)) uint64 {
	q := read(question[:size])
	tell, output := decide(&q)
	answer = append(append(answer[:0], 0), output...)
	if tell {
		answer[0] = 1
	}
	question = nil
	return uint64(uintptr(unsafe.Pointer(&answer[0])))<<32 | uint64(len(answer))
}

func read(b []byte) (q Question) {
	part := func() []byte {
		n := binary.LittleEndian.Uint32(b)
		b = b[4:]
		if n == math.MaxUint32 {
			return nil
		}
		p := b[:n:n]
		b = b[n:]
		return p
	}
	if err := json.Unmarshal(part(), &q.Change); err != nil {
		panic(err) // the JSON comes from the site; the site reports the error to the agent's sender
	}
	q.Page, q.Before = part(), part()
	return q
}
