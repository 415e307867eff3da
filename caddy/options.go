package parleycaddy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/maintext"
	"github.com/parleyweb/parley/internal/site/forms"
	"github.com/parleyweb/parley/protocol"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/manifest"
)

// options are those of the notifier that a site needs; what they mean is there. Base and Docroot are required.
type options struct {
	Base         string         `json:"base,omitempty"`          // URL at which the site is served
	Docroot      string         `json:"docroot,omitempty"`       // directory that file_server serves: a handler cannot see the one of "root"
	State        string         `json:"state,omitempty"`         // file; default: that of the notifier
	Out          string         `json:"out,omitempty"`           // file of the manifest; default: one beside the state
	Preset       string         `json:"preset,omitempty"`        // low, moderate (default) or high: the forms of delivery
	Grace        caddy.Duration `json:"grace,omitempty"`         // before a missing page is announced as deleted; default: 1m
	Include      []string       `json:"include,omitempty"`       // patterns of files to publish besides pages
	Exclude      []string       `json:"exclude,omitempty"`       // patterns of files not to publish
	CleanURLs    bool           `json:"clean_urls,omitempty"`    // page.html is served as /page
	Heal         bool           `json:"heal,omitempty"`          // restore mtimes of files rewritten with the same bytes
	TrustDocroot bool           `json:"trust_docroot,omitempty"` // deliver contents that no anonymous request has been refused
}

// fields returns where the options are stored, by their names in a Caddyfile, which are those of the notifier.
func (o *options) fields() map[string]any {
	return map[string]any{"base": &o.Base, "docroot": &o.Docroot, "state": &o.State, "out": &o.Out, "preset": &o.Preset, "grace": &o.Grace,
		"include": &o.Include, "exclude": &o.Exclude, "clean-urls": &o.CleanURLs, "heal": &o.Heal, "trust-docroot": &o.TrustDocroot}
}

// key identifies the options: sites with the same key are one site.
func (o *options) key() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic("parley: encode options: " + err.Error()) // plain values always encode
	}
	return string(b)
}

// check replaces placeholders such as {env.HOME}, sets the defaults, and returns what is wrong. It opens nothing: "caddy validate" calls it
// too, while the site runs in another process. A docroot that is missing now, such as an unmounted one, does not keep the server from starting.
func (o *options) check() (err error) {
	replacer := caddy.NewReplacer()
	for _, text := range []*string{&o.Base, &o.Docroot, &o.State, &o.Out} {
		if *text, err = replacer.ReplaceOrErr(*text, true, true); err != nil {
			return err
		}
	}
	if o.Base == "" {
		return errors.New("base is missing: the URL at which the site is served, such as https://www.example.org/")
	}
	if o.Base, err = protocol.CanonicalURL("", strings.TrimSuffix(o.Base, "/")+"/"); err != nil {
		return fmt.Errorf("base: %w", err)
	}
	if o.Docroot == "" {
		return errors.New(`docroot is missing: name the directory of "root" here too, so that it is known before the first request`)
	}
	if o.State == "" {
		if o.State, err = command.FindState(o.Base); err != nil {
			return err
		}
	}
	o.Out = cmp.Or(o.Out, o.State+".robots.rdf")
	for _, path := range []*string{&o.Docroot, &o.State, &o.Out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if _, inside, err := command.Below(o.Docroot, o.State); err != nil {
		return err
	} else if inside {
		return fmt.Errorf("state %s is inside the docroot, where everybody could fetch it: name a file outside", o.State)
	}
	o.Preset = cmp.Or(o.Preset, "moderate")
	if _, ok := forms.Preset(o.Preset); !ok {
		return fmt.Errorf("preset %s: want low, moderate or high", o.Preset)
	}
	if o.Grace = cmp.Or(o.Grace, caddy.Duration(time.Minute)); o.Grace < 0 {
		return fmt.Errorf("grace %s: want more than 0", time.Duration(o.Grace))
	}
	return o.site(nil, nil).Check()
}

// site returns the docroot as the notifier publishes it.
func (o *options) site(j *server.Journal, log *slog.Logger) *server.Site {
	s := &server.Site{Docroot: o.Docroot, Base: o.Base, Journal: j, Features: forms.ReadFeatures(maintext.Masks{}), Log: log}
	f := &s.Files
	f.Include, f.Exclude, f.CleanURLs, f.Own = o.Include, o.Exclude, o.CleanURLs, []string{o.State, o.Out, o.Out + manifest.PartsSuffix}
	return s
}
