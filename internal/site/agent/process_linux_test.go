package agent_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/agent"
)

// Every thread of a process that runs programs has a low priority.
func TestNiceness(t *testing.T) {
	h := open(t, t.TempDir(), agent.Options{})
	d := keep(t, h, "bot", echo())
	for n := range 20 {
		must.Get(h.Run(t.Context(), "bot", d, created(uint64(n)), nil, nil))
	}
	files := must.Get(filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat"))
	threads := 0
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// proc_pid_stat(5): the text after the name begins with the third field.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 17 || fields[1] != fmt.Sprint(os.Getpid()) {
			continue
		}
		threads++
		if nice, err := strconv.Atoi(fields[16]); err != nil || nice < 5 {
			t.Errorf("%s: niceness %d, %v", file, nice, err)
		}
	}
	if threads < 2 {
		t.Errorf("%d threads run programs", threads)
	}
}
