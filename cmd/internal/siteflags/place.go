package siteflags

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/protocol"
)

// ConfigFile is the configuration file that rdfgen and notifier read if neither it nor a site is named.
const ConfigFile = "/etc/parley.conf"

// A Place is where a site is: its URL, and its files on this machine. It knows which of them the web server serves.
type Place struct {
	Docroot, Base string
	Out, State    string // of the manifest and of the state
}

// canonical brings the base URL to its published form, and makes file names absolute.
func (p *Place) canonical(files ...*string) (err error) {
	if p.Base, err = canonicalBase("base", p.Base); err != nil {
		return err
	}
	for _, name := range append(files, &p.Out, &p.State) {
		if *name == "" {
			continue
		}
		if *name, err = filepath.Abs(*name); err != nil {
			return err
		}
	}
	return nil
}

// canonicalBase returns a base URL, the value of an option, in its published form.
func canonicalBase(option, base string) (string, error) {
	whole := base
	if !strings.HasSuffix(whole, "/") {
		whole += "/"
	}
	canonical, err := protocol.CanonicalURL("", whole)
	if ascii := command.ASCIIHost(whole); err != nil && ascii != whole {
		return "", command.Misusef("--%s %s: write the host's name as the DNS has it: %s", option, base, ascii)
	} else if err != nil {
		return "", command.Misusef("--%s %s: want a URL such as https://www.example.org/: %w", option, base, err)
	}
	return canonical, nil
}

// StatePath determines where the state is stored, creates the folder of its default, and rejects a place that the web
// server would serve.
func (p *Place) StatePath() error { return p.statePath(command.StatePath) }

// FindState is StatePath for a command that creates nothing.
func (p *Place) FindState() error { return p.statePath(command.FindState) }

func (p *Place) statePath(byDefault func(base string) (string, error)) error {
	if err := p.canonical(); err != nil {
		return err
	}
	if p.State == "" {
		path, err := byDefault(p.Base)
		if err != nil {
			return err
		}
		p.State = path
	}
	return p.outside("state", p.State, "everybody could fetch it")
}

// outside rejects a file in the docroot.
func (p *Place) outside(option, path, why string) error {
	if p.Docroot == "" { // nothing is served from here
		return nil
	}
	_, inside, err := p.below(path)
	if err == nil && inside {
		return command.Misusef("--%s %s is inside the docroot, where %s: name a file outside", option, path, why)
	}
	return err
}

// below returns the slashed path of a file below the docroot, if it is there.
func (p *Place) below(path string) (place string, inside bool, err error) {
	if p.Docroot == "" {
		return "", false, nil
	}
	return command.Below(p.Docroot, path)
}

// manifest returns the file of the manifest: --out, else one beside the state.
func (p *Place) manifest() string {
	if p.Out != "" {
		return p.Out
	}
	return p.State + ".robots.rdf"
}

// ManifestURL returns the URL of the manifest: that of --out if it is served, else that at the notifier.
func (p *Place) ManifestURL() string {
	if _, inside, err := p.below(p.Out); err == nil && inside && p.Out != "" {
		return p.url(p.Out)
	}
	return p.Base + "robots.rdf"
}

// CheckDocroot tells a wrong --docroot apart from one that is unmounted later.
func (p *Place) CheckDocroot() error {
	if p.Docroot == "" {
		return nil
	}
	st, err := os.Stat(p.Docroot)
	if err != nil {
		return fmt.Errorf("docroot: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("docroot %s is not a directory", p.Docroot)
	}
	return nil
}

// url returns the URL of a published file: below the base URL as it is below the docroot, directly at the
// base if it is elsewhere.
func (p *Place) url(file string) string {
	place, inside, err := p.below(file)
	if err != nil || !inside {
		place = filepath.Base(file)
	}
	return p.Base + place
}

// dirURL returns the URL of a file's directory.
func (p *Place) dirURL(file string) string {
	u := p.url(file)
	return u[:strings.LastIndexByte(u, '/')+1]
}
