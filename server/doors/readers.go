package doors

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/caller"
	"github.com/parleyweb/parley/server/content"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// Readers are the clients of a site: who they are, what they may ask for, what they may be
// told, and the CPU slots that they share. Any number of goroutines may use them.
type readers struct {
	*site
	clients  Clients
	public   func(url string) bool // nil: all URLs are
	pages    content.Pages         // nil: no contents
	archives *archives             // nil: no archive of the site
	slots    limit.Slots
}

// bounds of as=batch.
const (
	longestEvery = 24 * 60 * 60 // seconds
	mostCount    = 100_000      // changes
)

// selection parses the selection of a request.
func (rs *readers) selection(r *http.Request, q url.Values) (*selection, *web.Problem) {
	s := &selection{readers: rs, addr: rs.clients.Proxies.Address(r)}
	var p *web.Problem
	if s.caller, p = rs.callerOf(r); p != nil {
		return nil, p
	}
	var err error
	if s.as, err = protocol.ParseForm(q.Get("as")); err != nil {
		return nil, web.BadParameter("as", err.Error())
	}
	if !rs.offers(s.as) {
		return nil, web.BadParameter("as", fmt.Sprintf("this site does not offer the form %s: see %s for its forms", s.as, rs.urls.discovery))
	}
	if s.as == protocol.AsSite && !rs.archives.mayRead(s.caller) {
		return nil, archiveRefused()
	}
	if s.filter, err = protocol.ParseFilter(q); err != nil {
		wrong := new(protocol.ParameterError)
		errors.As(err, &wrong)
		return nil, web.BadParameter(wrong.Name, err.Error())
	}
	if s.filter.Where != "" {
		if rs.clients.Where == nil {
			return nil, web.BadParameter("where", "this site evaluates no expressions")
		}
		t, err := rs.slots.Acquire(r.Context(), s.addr, limit.Evaluating, rs.writeWait/4, true) // compiling takes as long as evaluating
		if err != nil {
			return nil, limit.Busy(err)
		}
		s.where, err = rs.clients.Where(s.filter.Where)
		t.Release()
		if err != nil {
			return nil, web.BadParameter("where", err.Error())
		}
	}
	if a := s.filter.Agent; !a.IsZero() {
		if rs.clients.Agents == nil {
			return nil, web.BadParameter("agent", "this site runs no programs")
		}
		if s.as == protocol.AsBatch {
			return nil, web.BadParameter("agent", "programs do not run on bundles: use another form, or run the program on all pages at "+rs.urls.base+agentsRunPath)
		}
		if !s.caller.Agents {
			return nil, web.Plain(http.StatusForbidden, "only callers that this site has authorized may run programs")
		}
		if err := rs.clients.Agents.Has(s.caller.Name, a); err != nil {
			return nil, web.BadParameter("agent", err.Error())
		}
	}
	every, p := web.Number(q, "every", 1, longestEvery, 1)
	if p != nil {
		return nil, p
	}
	if s.count, p = web.Number(q, "count", 1, mostCount, mostCount); p != nil {
		return nil, p
	}
	s.every = time.Duration(every) * time.Second
	if s.as != protocol.AsBatch && (q.Has("every") || q.Has("count")) {
		return nil, web.BadParameter("every", "every and count apply only to bundles (as=batch)")
	}
	if s.as == protocol.AsBatch {
		last := protocol.Cursor{Epoch: strings.Repeat("x", 64), Seq: math.MaxUint64}
		if len(s.bundleURL(last, last)) > protocol.MaxURL {
			return nil, web.BadParameter("", "the filter is too long for the URL of a bundle: shorten it, or use another form")
		}
	}
	key := s.filter.Query()
	key.Set("as", string(s.as))
	key.Set("caller", s.caller.Name)
	if s.as == protocol.AsBatch {
		key.Set("count", strconv.Itoa(s.count))
		key.Set("every", strconv.Itoa(every))
	}
	s.key = key.Encode()
	return s, nil
}

// selectionNames are the parameters that selection reads.
func selectionNames() []string {
	return append([]string{"as", "every", "count"}, protocol.FilterNames()...)
}

// offers reports whether this site delivers changes in a form.
func (rs *readers) offers(f protocol.Form) bool {
	switch f {
	case protocol.AsMeta:
		return true
	case protocol.AsSite:
		return rs.archives != nil
	}
	return rs.pages != nil
}

// forms returns the forms that this site offers.
func (rs *readers) forms() (list []protocol.Form) {
	for _, f := range protocol.Forms() {
		if rs.offers(f) {
			list = append(list, f)
		}
	}
	return list
}

// filters returns the filter parameters that this site supports.
func (rs *readers) filters() []string {
	return slices.DeleteFunc(protocol.FilterNames(), func(name string) bool {
		return name == "where" && rs.clients.Where == nil || name == "agent" && rs.clients.Agents == nil
	})
}

// callerOf returns the caller of a request.
func (rs *readers) callerOf(r *http.Request) (caller.Caller, *web.Problem) {
	if rs.clients.Identify == nil {
		return caller.Caller{}, nil
	}
	c, err := rs.clients.Identify(r)
	if err != nil {
		return caller.Caller{}, unknownCaller(err)
	}
	return c, nil
}

func unknownCaller(err error) *web.Problem {
	p := web.Plain(http.StatusUnauthorized, err.Error())
	p.Challenge = "Bearer"
	return p
}

// archiveRefused refuses the archive to a caller whom robots.txt forbids a part of it.
func archiveRefused() *web.Problem {
	return web.Plain(http.StatusForbidden, "the archive is the same for all clients, and robots.txt has rules of its own for you: "+
		"request bundles (as=batch) or changes instead")
}
