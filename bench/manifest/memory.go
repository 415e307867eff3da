package main

import (
	"fmt"
	"io"
	"os"
	"runtime/metrics"
	"strings"
	"sync"
	"time"
)

// alone does one side's work in this process and prints its peak memory.
func alone(side, file string, n int, out io.Writer) error {
	var work func() error
	switch side {
	case "write":
		work = func() error { return writeOurs(io.Discard, n) }
	case "read":
		work = func() error { return readFile(file, n, readOurs) }
	default:
		return fmt.Errorf("-only %s: want read or write", side)
	}
	heap, err := peakHeap(work)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "peak heap %.1f MB, peak resident memory %s\n", float64(heap)/1e6, residentPeak())
	return nil
}

// peakHeap samples the heap while work runs.
func peakHeap(work func() error) (peak uint64, err error) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	err = work()
	close(done)
	wg.Wait()
	return peak, err
}

// residentPeak returns the kernel's figure, if it has one.
func residentPeak() string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown on this system"
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown on this system"
}
