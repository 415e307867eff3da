package fakeweb

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Access is one request in the log.
type Access struct {
	Site       *Site
	Path       string // with query
	Agent      string
	From       string
	Begin, End time.Time // End is zero while it is in progress
	Status     int       // 0 if there was none, or no valid one
	Conn       any       // equal for requests over one connection

	// Again is the Retry-After of a response that asks for a pause (429, and 500 and more), 0 if there was
	// none.
	Again time.Duration

	// Waits says that it is a subscription or long poll: the only rule of politeness for it is the gap before
	// it.
	Waits bool
}

func (a Access) String() string {
	return fmt.Sprintf("%s%s from %s to %s: %d", a.Site.Origin, a.Path, a.Begin.Format(time.StampMilli), a.End.Format(time.StampMilli), a.Status)
}

// Log returns all accesses, in the order of their beginnings.
func (w *Web) Log() []Access {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]Access, len(w.log))
	for i, a := range w.log {
		list[i] = *a
	}
	return list
}

// Forget empties the log.
func (w *Web) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = nil
}

// ServeHTTP responds for all sites.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	s := w.byHost[r.Host]
	a := &Access{
		Site: s, Path: r.URL.RequestURI(), Agent: r.UserAgent(), From: r.Header.Get("From"), Begin: time.Now(), Conn: r.Context().Value(connection{}),
		Waits: r.URL.Query().Has("wait") || r.Header.Get("Upgrade") != "",
	}
	w.log = append(w.log, a)
	w.mu.Unlock()
	sw := &statusWriter{ResponseWriter: rw}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		a.End, a.Status = time.Now(), sw.status
		if a.Status == http.StatusTooManyRequests || a.Status >= 500 {
			a.Again = again(rw.Header().Get("Retry-After"), a.End)
		}
	}()
	if s == nil {
		http.Error(sw, "no such site here", http.StatusMisdirectedRequest)
		return
	}
	s.serve(sw, r)
}

// again parses Retry-After, which is seconds or a date.
func again(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return t.Sub(now)
	}
	return 0
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Prompt reports whether an access was so quick, and went so well, that another may follow it without the gap: the site is one's own.
func (a Access) Prompt(next Access, gap time.Duration) bool {
	return strings.HasSuffix(a.Site.name(), ".localhost") && a.Site == next.Site && a.Conn == next.Conn && a.Site.Delay == 0 && a.Path != "/robots.txt" && a.Status > 0 && a.Status < 500 &&
		a.Status != http.StatusTooManyRequests && 10*a.End.Sub(a.Begin) <= gap
}

// Manners are the promises of a crawler.
type Manners struct {
	Gap     time.Duration // minimum time from the end of an access to a host to the beginning of the next
	AtOnce  int           // requests that may come without a gap, on one connection, until the site refuses or is slow, and if it has no Crawl-delay
	Address float64       // maximum requests a second to an address that sites share, each site at most one per Gap; 0: any
	Robots  bool          // robots.txt is fetched first, and forbidden URLs never
	Delay   bool          // Crawl-delay is obeyed as well
	Agent   string        // text that the User-Agent must contain
}

// Impolite returns the accesses in the log that break a promise, at most 20.
func (w *Web) Impolite(m Manners) (faults []string) {
	type state struct {
		last   Access
		count  int // requests since the last gap
		robots bool
	}
	type shared struct {
		sites int
		last  Access
		going []Access
	}
	sites, hosts, addrs := map[any]*state{}, map[any]*state{}, map[netip.Addr]*shared{}
	for _, s := range w.Sites() {
		if addrs[s.IP] == nil {
			addrs[s.IP] = &shared{}
		}
		addrs[s.IP].sites++
	}
	say := func(format string, args ...any) {
		if len(faults) < 20 {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	for _, a := range w.Log() {
		if a.Site == nil {
			say("request to an unknown site: %s", a.Path)
			continue
		}
		gap := m.Gap
		if m.Delay {
			gap = max(gap, a.Site.Delay)
		}
		if !strings.Contains(a.Agent, m.Agent) {
			say("%v: wrong agent %q", a, a.Agent)
		}
		check := func(what string, all map[any]*state, key any, gap time.Duration) *state {
			s := all[key]
			if s == nil {
				s = new(state)
				all[key] = s
			} else {
				if s.last.End.IsZero() && !s.last.Waits || a.Begin.Before(s.last.End) {
					say("two requests at once to one %s: %v; %v", what, s.last, a)
				} else if wait := a.Begin.Sub(s.last.End); wait >= gap || s.last.Waits {
					s.count = 0
				} else if s.count >= m.AtOnce || !s.last.Prompt(a, gap) {
					say("pause of %v, want %v, to the same %s: %v; %v", wait, gap, what, s.last, a)
				}
			}
			if s.count++; !a.Waits {
				s.last = a
			}
			return s
		}
		s := check("site", sites, a.Site, gap)
		if other := hosts[a.Site.name()]; other == nil || other.last.Site != a.Site {
			check("host", hosts, a.Site.name(), m.Gap)
		} else if !a.Waits {
			other.last, other.count = a, s.count
		}
		if at := addrs[a.Site.IP]; m.Address > 0 {
			pause := time.Duration(float64(time.Second) / min(m.Address, float64(at.sites)/m.Gap.Seconds()))
			if d := a.Begin.Sub(at.last.Begin); at.last.Site != nil && d < pause-time.Millisecond && s.count == 1 { // the time to check a kept connection
				say("pause of %v, want %v, to the same address: %v; %v", d, pause, at.last, a)
			}
			if s.count == 1 {
				at.last = a
			}
			at.going = slices.DeleteFunc(at.going, func(x Access) bool { return x.Waits || !x.End.IsZero() && !x.End.After(a.Begin) })
			if at.going = append(at.going, a); len(at.going) > 4 {
				say("%d requests at once to one address: %v", len(at.going), at.going)
			}
		}
		if !m.Robots {
			continue
		}
		if a.Path == "/robots.txt" {
			s.robots = true
		} else if !s.robots {
			say("fetched before robots.txt: %v", a)
		} else if a.Site.Forbids(a.Path) {
			say("forbidden by robots.txt: %v", a)
		}
	}
	return faults
}
