package harvest

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

// spill reads a body that is not coded: into memory, or if it is large into a
// file. It reports whether there was more than limit bytes.
func (b *bodies) spill(a *Answer, resp *http.Response, limit int64, create func() (*os.File, error)) (over bool, err error) {
	a.Body, over, err = b.buffers.slurp(resp.Body, resp.ContentLength, min(limit, ahead), func(int64) bool { return true })
	a.Wire = int64(len(a.Body))
	if !over || limit <= ahead || err != nil {
		return over, err
	}
	f, err := create()
	if err != nil {
		return false, fmt.Errorf("create body file: %w", err)
	}
	a.File = f
	begin := a.Body
	a.Body = nil
	_, err = f.Write(begin[:len(begin)+1]) // with the byte beyond the limit, which slurp has read as well
	b.buffers.free(begin)
	if err == nil {
		var n int64
		n, err = io.Copy(f, io.LimitReader(resp.Body, limit-ahead))
		a.Wire = ahead + 1 + n
		over = a.Wire > limit
	}
	if err != nil || over {
		a.dropFile()
	}
	return over, err
}

// dropFile closes the file of a body and removes it, unless it was renamed.
func (a *Answer) dropFile() {
	if a.File != nil {
		a.File.Close()
		os.Remove(a.File.Name())
		a.File = nil
	}
}
