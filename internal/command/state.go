package command

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxStateName bounds the name of a state file, in bytes, below the limits of file systems.
const maxStateName = 200

// StatePath returns FindState, and creates its folder if missing.
func StatePath(base string) (string, error) {
	path, err := FindState(base)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("default state of %s: %w; name a file with --state", base, err)
	}
	return path, nil
}

// FindState returns the default file for the state of the site at the base URL. Its folder is systemd's
// ($STATE_DIRECTORY), else /var/lib/parley if it is writable, else one of the user's; so all our commands find the same
// file.
func FindState(base string) (string, error) {
	name, err := stateName(base)
	if err != nil {
		return "", err
	}
	dir, err := stateDir(runtime.GOOS, os.Getenv, mayWrite)
	if err != nil {
		return "", fmt.Errorf("default state of %s: %w; name a file with --state", base, err)
	}
	return filepath.Join(dir, name), nil
}

// Below returns the slashed path of a file below a directory, if it is there. The file need not exist yet; symbolic links are followed.
func Below(dir, file string) (path string, inside bool, err error) {
	if dir, err = RealPath(dir); err != nil {
		return "", false, err
	}
	if file, err = RealPath(file); err != nil {
		return "", false, err
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false, nil
	}
	return filepath.ToSlash(rel), true, nil
}

// RealPath returns an absolute path, and follows the symbolic links of as much of it as exists.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for p := abs; ; p = filepath.Dir(p) {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if p == filepath.Dir(p) {
			return abs, nil
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// stateDir chooses the folder.
func stateDir(goos string, getenv func(string) string, mayWrite func(dir string) bool) (string, error) {
	if list := getenv("STATE_DIRECTORY"); list != "" { // several are separated by colons
		return filepath.SplitList(list)[0], nil
	}
	if goos == "windows" || goos == "darwin" {
		dir, err := os.UserConfigDir()
		return filepath.Join(dir, "parley"), err
	}
	if dir := "/var/lib/parley"; mayWrite(dir) {
		return dir, nil
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("no home folder")
	}
	return filepath.Join(home, ".local", "state", "parley"), nil
}

// mayWrite tries to create a file in dir. Root may write everywhere, and creates the folder if missing.
func mayWrite(dir string) bool {
	if os.Geteuid() == 0 {
		return true
	}
	f, err := os.CreateTemp(dir, ".parley-")
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(f.Name()) == nil
}

// stateName derives a file name that a person recognises, and that no other site has, even on a
// case-insensitive file system: "example.org.db", "localhost+8080_docs.db". The scheme does not count.
func stateName(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("default state of %q: want a URL with a host", base)
	}
	var b strings.Builder
	for _, c := range []byte(strings.ToLower(u.Host) + strings.TrimRight(u.EscapedPath(), "/")) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '-':
			b.WriteByte(c)
		case c == ':':
			b.WriteByte('+')
		case c == '/':
			b.WriteByte('_')
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) > maxStateName {
		sum := sha256.Sum256([]byte(name))
		name = name[:maxStateName-16] + "=" + hex.EncodeToString(sum[:8])
	}
	return name + ".db", nil
}
