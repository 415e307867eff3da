package static

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// errForeignFile keeps an output from replacing a file that it never wrote: with a wrong path that would cost a
// page, or a server's configuration.
var errForeignFile = errors.New("the existing file is not Parley's: move it away, or choose another path")

// beginning is how many bytes of a file are read to see what it is.
const beginning = 8 << 10

// A kind reports, from the first bytes of a file, whether an output may have written it.
type kind func(head []byte) bool

// checkReplaceable returns an error if the file that an update replaces is neither empty nor of the kind. Files that the
// output is known to have written are not checked: so they may be damaged and are replaced all the same. The
// check accepts files written earlier by an output whose state was lost.
func (u *update) checkReplaceable(is kind) error {
	if u.old == nil {
		return nil
	}
	head := make([]byte, beginning)
	n, err := io.ReadFull(io.NewSectionReader(u.old, 0, beginning), head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if head = head[:n]; is(head) || n < beginning && len(bytes.TrimSpace(head)) == 0 {
		return nil
	}
	return fmt.Errorf("replace %s: %w", u.path, errForeignFile)
}

// checkAllReplaceable checks files that are to be removed, or replaced later.
func checkAllReplaceable(paths []string, is kind) error {
	for _, p := range paths {
		u, err := begin(p)
		if err != nil {
			return err
		}
		err = u.checkReplaceable(is)
		u.drop()
		if err != nil {
			return err
		}
	}
	return nil
}

func isSitemap(head []byte) bool { return isRoot(head, "urlset", "sitemapindex") }

func isFeed(head []byte) bool {
	if text := bytes.TrimSpace(head); bytes.HasPrefix(text, []byte("{")) {
		return bytes.Contains(text, []byte(`"version"`)) && bytes.Contains(text, []byte(`"https://jsonfeed.org/version/`))
	}
	return isRoot(head, "rss", "feed")
}

// isPacked reports whether a file is compressed as siblings are.
func isPacked(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\x1f\x8b")) || bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd"))
}

// isRoot reports whether a text is XML whose root element has one of the names.
func isRoot(text []byte, names ...string) bool {
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	for {
		text = bytes.TrimSpace(text)
		end := ""
		switch {
		case bytes.HasPrefix(text, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(text, []byte("<!--")):
			end = "-->"
		}
		if end == "" {
			break
		}
		var ok bool
		if _, text, ok = bytes.Cut(text, []byte(end)); !ok {
			return false
		}
	}
	text, ok := bytes.CutPrefix(text, []byte("<"))
	n := bytes.IndexAny(text, " \t\r\n/>")
	return ok && n > 0 && slices.Contains(names, string(text[:n]))
}
