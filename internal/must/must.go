// Package must is for the steps of a test that are not what it tests: a step that fails ends the test.
package must

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// OK ends the test unless err is nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns v, the result of a call that may fail. It panics if the call has failed, so that the trace names the line.
func Get[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Write writes a file that everybody may read, and makes its directory.
func Write(t testing.TB, path, text string) {
	t.Helper()
	OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	OK(t, os.WriteFile(path, []byte(text), 0o644))
}

// Fetch sends a request with pairs of header fields, and returns the response and its body, which is read to its end.
func Fetch(t testing.TB, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r := Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp := Get(http.DefaultClient.Do(r))
	defer resp.Body.Close()
	return resp, string(Get(io.ReadAll(resp.Body)))
}
