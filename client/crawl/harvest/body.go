package harvest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

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

// hold gives back the taken memory, except for what the body needs until Release.
func (h *Harvester) hold(a *Answer, taken int64) {
	body := a.Body
	held := min(taken, int64(cap(body)))
	if taken > held {
		h.memory.give(taken - held)
	}
	a.release = func() {
		h.buffers.free(body)
		h.memory.give(held)
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
func (h *Harvester) decode(b []byte, names []string, limit int64, reach func(int64) bool) ([]byte, error) {
	if len(names) > 1 {
		return nil, fmt.Errorf("%d content codings, more than one", len(names))
	}
	d := <-h.decoders
	defer func() {
		d.Close()
		h.decoders <- d
	}()
	if err := d.Open(names[0], b); err != nil {
		return nil, err
	}
	out, over, err := h.buffers.slurp(d, int64(len(b))*4, limit, reach)
	if over {
		err = errTooLarge
	}
	return out, err
}
