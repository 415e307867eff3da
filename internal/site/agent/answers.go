package agent

import (
	"sync"
	"sync/atomic"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
)

// An asking is a sender, its program and a question.
type asking struct {
	key
	question protocol.Digest
}

const (
	mostAnswers     = 4096
	mostAnswerBytes = 16 << 20
)

// answers is a cache of the latest answers, oldest evicted first. The methods may be called by many goroutines at once.
type answers struct {
	mu       sync.Mutex // guards the fields below
	byAsking map[asking]caller.Verdict
	order    []asking // oldest first
	bytes    int

	given atomic.Int64 // see Stats.Shared
}

func (a *answers) get(q asking) (caller.Verdict, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, ok := a.byAsking[q]
	if ok {
		a.given.Add(1)
	}
	return v, ok
}

func (a *answers) put(q asking, v caller.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byAsking == nil {
		a.byAsking = make(map[asking]caller.Verdict)
	}
	if _, ok := a.byAsking[q]; ok {
		return
	}
	a.byAsking[q] = v
	a.order = append(a.order, q)
	a.bytes += len(v.Output)
	for len(a.order) > mostAnswers || a.bytes > mostAnswerBytes {
		a.bytes -= len(a.byAsking[a.order[0]].Output)
		delete(a.byAsking, a.order[0])
		a.order = a.order[1:]
	}
}
