package main

import (
	"bytes"
	"os"
	"strconv"
)

// anonymous returns the anonymous memory of the process in bytes; 0 without /proc.
func anonymous() int64 { return procNumber("/proc/self/status", "RssAnon:") << 10 }

// written returns how many bytes the process has written to files.
func written() int64 { return procNumber("/proc/self/io", "wchar:") }

func procNumber(file, name string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
