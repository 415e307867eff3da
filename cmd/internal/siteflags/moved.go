package siteflags

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server/inventory"
)

// MovedFrom returns the base URLs that the site had before.
func (f *Flags) MovedFrom() []string { return f.journal.Former }

// maxFormer is how many former base URLs a manifest names: see [protocol.Manifest.Replaces].
const maxFormer = 16

// canonicalFormer brings them to their published form.
func (f *Flags) canonicalFormer() (err error) {
	if n := len(f.journal.Former); n > maxFormer { // before the state is moved: its manifest could not be written
		return command.Misusef("--moved-from: %d former addresses, and a manifest names at most %d: leave out the oldest", n, maxFormer)
	}
	path := f.Base[len(protocol.Origin(f.Base)):]
	for i, was := range f.journal.Former {
		if was, err = canonicalBase("moved-from", was); err != nil {
			return err
		}
		if was == f.Base || was != protocol.Origin(was)+path {
			return command.Misusef("--moved-from %s: want another scheme, host or port than --base, and the same path, %s: a site that moves keeps its paths", was, path)
		}
		f.journal.Former[i] = was
	}
	return nil
}

// checkFormerState makes sure that the state of a former base is found where none is named: the default is named after the host.
func checkFormerState(p *Place, former []string) error {
	path, err := command.FindState(p.Base)
	if err != nil || p.State != path || exists(path) {
		return nil
	}
	for _, was := range former {
		if old, err := command.FindState(was); err == nil && exists(old) {
			return fmt.Errorf("the state of %s is %s: stop the programs that use it, and mv %s %s, or name it with --state", was, old, old, path)
		}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// canonicalHere wraps a Features for a site that has moved to a base: a canonical URL at a former one names the page that is there now.
func canonicalHere(features forms.Features, base string, former []string) forms.Features {
	return func(pageURL string, page []byte, whole bool) (inventory.Features, error) {
		got, err := features(pageURL, page, whole)
		for _, was := range former {
			if rest, ok := strings.CutPrefix(got.Canonical, was); ok {
				got.Canonical = base + rest
			}
		}
		return got, err
	}
}
