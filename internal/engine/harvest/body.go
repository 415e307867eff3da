package harvest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/parleyweb/parley/internal/coding"
)

// A bodies reads and decodes bodies, into memory of which there is a bounded amount.
type bodies struct {
	memory   *budget // see Limits
	buffers  buffers
	decoders chan *coding.Body // one for each core, since the sender decides how much memory each needs
}

func (b *bodies) start(memory *budget) {
	b.memory, b.decoders = memory, make(chan *coding.Body, runtime.GOMAXPROCS(0))
	for range cap(b.decoders) {
		b.decoders <- new(coding.Body)
	}
}

// read reads and decodes the body of a response, and reports whether it was read
// to its end. It calls begin, which starts the deadlines, once there is memory
// for the body: the site is not to blame for the wait before. The body of a page may be
// written to a file of spill, if that is not nil.
func (b *bodies) read(ctx context.Context, a *Answer, resp *http.Response, limit int64, spill func() (*os.File, error), begin func()) (whole bool, err error) {
	part := false
	switch a.Status {
	case http.StatusNotModified, http.StatusNoContent:
		return true, nil
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if a.Location, err = location(a.URL, resp.Header.Get("Location")); err != nil {
			return false, err
		}
		limit = min(limit, maxOther)
	case http.StatusOK:
	case http.StatusPartialContent:
		if part, err = partial(resp.Header.Get("Content-Range")); err != nil {
			return false, err
		}
		a.Status = http.StatusOK
	default:
		limit = min(limit, maxOther)
	}
	names := codings(resp.Header["Content-Encoding"])
	expect := limit
	if len(names) == 0 && resp.ContentLength >= 0 {
		expect = min(expect, resp.ContentLength)
	} else if len(names) > 0 {
		expect *= 2
	}
	room := &share{of: b.memory}
	if room.n, err = b.memory.take(ctx, min(expect, ahead)); err != nil {
		return false, err
	}
	defer func() { b.returnUnused(a, room.n) }()
	begin()
	var over bool
	if spill != nil && a.Page != 0 && a.Status == http.StatusOK && len(names) == 0 {
		over, err = b.spill(a, resp, limit, spill)
	} else {
		limit = min(limit, b.memory.all)
		a.Body, over, err = b.buffers.slurp(resp.Body, resp.ContentLength, limit, room.reach)
		a.Wire = int64(len(a.Body))
	}
	if len(names) == 1 && names[0] == deltaCoding && a.base != nil {
		return b.undelta(a, limit, room, over, err)
	}
	if len(names) > 0 && len(a.Body) > 0 {
		a.Coding = strings.Join(names, ", ")
		wire := a.Body
		var undone error
		a.Body, undone = b.decode(wire, names, min(limit, b.memory.all-a.Wire), func(n int64) bool { return room.reach(a.Wire + n) })
		b.buffers.free(wire)
		switch {
		case errors.Is(undone, errTooLarge):
			over = true
		case errors.Is(undone, errNoMemory):
			err = undone
		case undone != nil && err == nil && !over:
			err = fail(FaultCoding, undone)
		}
	}
	switch {
	case err != nil:
		return false, err
	case (over || part) && a.Status/100 == 2:
		return !over, fail(FaultSize, fmt.Errorf("more than %d bytes", limit))
	}
	a.Cut = over
	return !over, nil
}

// partial parses Content-Range, which must begin at byte 0, and reports whether
// the page is longer, or of unknown length.
func partial(header string) (more bool, err error) {
	rest, ok := strings.CutPrefix(header, "bytes 0-")
	last, total, both := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(last, 10, 64)
	if !ok || !both || err != nil {
		return false, fmt.Errorf("response has a range that was not requested: %.50q", header)
	}
	all, err := strconv.ParseInt(total, 10, 64)
	return err != nil || all > n+1, nil
}

// returnUnused gives back the taken memory, except for what the body needs until Release.
func (b *bodies) returnUnused(a *Answer, taken int64) {
	body := a.Body
	held := min(taken, int64(cap(body)))
	b.memory.give(taken - held)
	a.release = func() {
		b.buffers.free(body)
		b.memory.give(held)
	}
}

// maxOther bounds the body of a response without the page, such as an error or a redirect.
const maxOther = 64 << 10

var errTooLarge = errors.New("too large")

// codings returns the content codings of a response, in the order in which they were applied.
func codings(header []string) (names []string) {
	for _, line := range header {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				names = append(names, strings.TrimPrefix(name, "x-"))
			}
		}
	}
	return names
}

// decode undoes a content coding. With an error it returns the bytes decoded before
// it. A body that is not coded despite its header is returned unchanged.
func (b *bodies) decode(coded []byte, names []string, limit int64, reach func(int64) bool) ([]byte, error) {
	if len(names) > 1 {
		return nil, fmt.Errorf("%d content codings, more than one", len(names))
	}
	d := <-b.decoders
	defer func() {
		d.Close()
		b.decoders <- d
	}()
	if err := d.Open(names[0], coded); err != nil {
		return nil, err
	}
	out, over, err := b.buffers.slurp(d, int64(len(coded))*4, limit, reach)
	if over {
		err = errTooLarge
	}
	return out, err
}
