package docroot

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Plant makes a tree with that many small pages below a directory, unless it exists already.
func Plant(dir string, files int) error {
	mark := filepath.Join(dir, ".planted-"+strconv.Itoa(files))
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	const each = 50 // files in a directory
	for i := 0; i < files; i += each {
		d := filepath.Join(dir, fmt.Sprintf("s%02d", i/each%97), fmt.Sprintf("t%03d", i/each/97%211), fmt.Sprintf("u%d", i/each))
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
		for j := i; j < min(i+each, files); j++ {
			page := fmt.Appendf(nil, "<!doctype html><title>%d</title><p>%s</p>", j, strings.Repeat("words ", j%80))
			if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("page-%d.html", j)), page, 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(mark, nil, 0o644)
}
