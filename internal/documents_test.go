package internal_test

import (
	"bytes"
	"os"
	"testing"
)

// TestLengthOfDocuments holds the documents that everybody reads first to what can be read at a sitting.
func TestLengthOfDocuments(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if n := bytes.Count(read("ARCHITECTURE.md"), []byte("\n")); n >= 150 {
		t.Errorf("ARCHITECTURE.md: %d lines, not under 150", n)
	}
	if n := len(bytes.Fields(read("README.md"))); n > 900 {
		t.Errorf("README.md: %d words, more than 900", n)
	}
}
