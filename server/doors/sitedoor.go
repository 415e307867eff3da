package doors

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/internal/limit"
	"github.com/parleyweb/parley/server/internal/web"
)

// siteRanges is how many parts of an archive one request may ask for.
const siteRanges = 4

// A siteDoor serves archives of the whole site.
type siteDoor struct {
	*site
	readers  *readers
	archives *archives
	admitted *limit.Admission // with batchDoor: both send much
	counts   *counters
}

// serve serves an archive of the whole site: the newest one, or the one at the
// cursor in the parameter at.
func (d *siteDoor) serve(w http.ResponseWriter, r *http.Request) *web.Problem {
	q, p := web.Query(r, "at")
	if p != nil {
		return p
	}
	if q.Has("at") {
		if _, err := protocol.ParseCursor(q.Get("at")); err != nil {
			return web.BadParameter("at", err.Error())
		}
	}
	who, p := d.readers.callerOf(r)
	if p != nil {
		return p
	}
	if !d.archives.mayRead(who) {
		return archiveRefused()
	}
	if strings.Count(r.Header.Get("Range"), ",") >= siteRanges || len(r.Header.Values("Range")) > 1 {
		return web.Plain(http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("one request may ask for %d ranges", siteRanges))
	}
	leave, p := d.admitted.Enter("bundles and archives", d.readers.clients.Proxies.Address(r), bundlesAtOnce, bundlesEach)
	if p != nil {
		return p
	}
	defer leave()
	if p := d.scanning(); p != nil {
		return p
	}
	d.counts.answered(protocol.AsSite, 0, 0)
	d.archives.archive.ServeHTTP(metered{d.patient(w), &d.counts.form(protocol.AsSite).bytes}, r)
	return nil
}
