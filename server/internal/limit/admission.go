package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/server/internal/web"
)

// Admission counts the requests in progress, in all and by address.
type Admission struct {
	mu     sync.Mutex
	total  int
	byAddr map[string]int
}

// Enter admits one more request from addr, unless that exceeds a limit; what, in the
// plural, names the limited things in the error. An empty addr has no limit of its
// own. leave must be called once at the end.
func (a *Admission) Enter(what, addr string, most, each int) (leave func(), p *web.Problem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.total >= most || addr != "" && a.byAddr[addr] >= each {
		return nil, &web.Problem{Type: web.TypeLimit, Title: "too many " + what + " at a time", Status: http.StatusTooManyRequests,
			Detail: fmt.Sprintf("at most %d %s at a time, and %d per address or caller", most, what, each), Retry: 2 * time.Second}
	}
	a.total++
	if addr != "" {
		if a.byAddr == nil {
			a.byAddr = make(map[string]int)
		}
		a.byAddr[addr]++
	}
	return func() { a.leave(addr) }, nil
}

func (a *Admission) leave(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total--
	if addr == "" {
		return
	}
	if a.byAddr[addr]--; a.byAddr[addr] == 0 {
		delete(a.byAddr, addr)
	}
}

// few is how many subscribers of one address are sent a change at once when it goes to all;
// spreading, times the number of all subscribers, bounds the random delay of the others.
const (
	few       = 4
	spreading = 100 * time.Microsecond
)

// Crowded reports whether addr has more subscribers than are sent a change at once when it goes to all.
func (a *Admission) Crowded(addr string) bool {
	if addr == "" {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byAddr[addr] > few
}

// Spread delays a subscriber that is about to be sent a change by a random time if
// its address has more than few: a thousand at once would delay all the others.
func (a *Admission) Spread(ctx context.Context, addr string) {
	a.mu.Lock()
	each, all := a.byAddr[addr], a.total
	a.mu.Unlock()
	if each > few {
		pause.For(ctx, rand.N(time.Duration(all)*spreading))
	}
}

func (a *Admission) Now() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.total
}
