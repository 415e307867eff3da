package siteflags

import (
	"flag"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/site/forms"
)

// Forms are the options for the forms in which changes are delivered, and for queries. A preset sets those of
// package forms; each can be overridden.
type Forms struct {
	forms.Options
	Callers string // FILE of callers that may ask for more than anonymous ones
	Trust   bool   // content needs no evidence
	Shared  bool   // the site has doors elsewhere, which run no programs of callers: none does

	preset string
}

// DoorOptions returns the options of a program that has doors, among them that of a hub of one's own.
func (f *Flags) DoorOptions() []command.Flag {
	bind := command.Bind
	o := &f.forms
	o.preset = "moderate"
	o.Options, _ = forms.Preset(o.preset)
	return []command.Flag{
		bind("hub", &f.senders.ownHub, "act as a WebSub hub for the manifest and the feeds, at BASE/parley/hub"),
		bind("preset", &o.preset, "enable the forms of delivery that fit a `BUDGET`: low (manifest and changes, by polling), moderate (adds push) or high (adds pages, differences, batches, archives and queries); --stream, --pages, --versions, --archive, --query and --expressions override it"),
		bind("stream", &o.Stream, "push changes as they happen, over WebSocket, and let requests wait for them (long polls)"),
		bind("pages", &o.Pages, "deliver the content of changed pages too, one by one or in batches: as=page, as=batch"),
		bind("versions", &o.Versions, "store old versions of pages beside the state, up to `SIZE`, and deliver differences: as=delta; needs --pages. For URL lists with --fetch it stores the present versions too"),
		bind("archive", &o.Archive, "make an archive of the whole site, beside the state, for crawlers that lack most of the pages: as=site"),
		bind("archive-share", &o.Share, "announce the archive to crawlers that have missed changes of more than this `SHARE` of the pages"),
		bind("query", &o.Query, "list the pages that match a filter, at BASE/parley/query"),
		bind("expressions", &o.Expressions, "accept filters written in CEL, of bounded cost"),
		bind("serve-pages", &o.Serve, "answer requests for the pages themselves that the web server forwards, with differences for clients that have an old version"),
		bind("expires", &o.Expires, "with --serve-pages, predict in the header Expires when a page changes next, from its changes so far; caches are told to ask again after a minute"),
		bind("trust-docroot", &o.Trust, "deliver the content of pages that the web server has not refused, even if no check has shown that it serves them to anonymous clients"),
		bind("callers", &o.Callers, "identify crawlers by the tokens in `FILE`, which is read again when it changes; each line has a name as in robots.txt, a token, and the word agents if programs of that crawler may run here"),
	}
}

// Forms returns the options of the preset, with the overrides: those that are set. It is called after StatePath.
func (f *Flags) Forms(set *flag.FlagSet) (Forms, error) {
	return formsOf(f, set, f.Docroot != "")
}

// formsOf is Forms for a site whose pages are files, or not.
func formsOf(f *Flags, set *flag.FlagSet, files bool) (Forms, error) {
	said := &f.forms
	o, ok := Forms{Callers: said.Callers, Trust: said.Trust}, false
	if o.Options, ok = forms.Preset(said.preset); !ok {
		return Forms{}, command.Misusef("--preset %s: want low, moderate or high", said.preset)
	}
	o.Share, o.Serve, o.Expires = said.Share, said.Serve, said.Expires
	isSet := map[string]bool{}
	set.Visit(func(fl *flag.Flag) {
		isSet[fl.Name] = true
		switch fl.Name {
		case "stream":
			o.Stream = said.Stream
		case "pages":
			o.Pages = said.Pages
		case "versions":
			o.Versions = said.Versions
		case "archive":
			o.Archive = said.Archive
		case "query":
			o.Query = said.Query
		case "expressions":
			o.Expressions = said.Expressions
		}
	})
	switch {
	case o.Share <= 0 || o.Share > 1:
		return Forms{}, command.Misusef("--archive-share %g: want more than 0, and at most 1", o.Share)
	case o.Expires && !o.Serve:
		return Forms{}, command.Misusef("--expires needs --serve-pages: the header is sent with the pages")
	case !files:
		for _, option := range []string{"archive", "serve-pages"} {
			if isSet[option] {
				return Forms{}, command.Misusef("--%s reads files: it needs --docroot", option)
			}
		}
		o.Archive = false // a preset enables only what is possible
		if !f.pages.fetch {
			for _, option := range []string{"pages", "versions"} {
				if isSet[option] {
					return Forms{}, command.Misusef("--%s needs pages to read: --docroot, or a list with --fetch", option)
				}
			}
			o.Pages, o.Versions = false, 0
		} else if o.Versions == 0 {
			o.Pages = false
		}
		if said.Pages && isSet["pages"] && o.Versions == 0 {
			return Forms{}, command.Misusef("--pages of a URL list needs --versions: the content of fetched pages is delivered from the stored versions")
		}
	}
	if o.Versions > 0 && !o.Pages && isSet["pages"] {
		if isSet["versions"] {
			return Forms{}, command.Misusef("--versions needs --pages: if there is no difference, the whole page is delivered")
		}
		o.Versions = 0 // the preset's value is meant only for sites that deliver pages
	}
	o.Pages = o.Pages || o.Versions > 0
	if o.Callers != "" {
		if err := f.outside("callers", o.Callers, "everybody could read the tokens"); err != nil {
			return Forms{}, err
		}
	}
	return o, nil
}

// SharedForms is Forms for a site whose log several notifiers share. A door gets the pages and the archive from the notifier that writes.
func (f *Flags) SharedForms(set *flag.FlagSet, door bool) (Forms, error) {
	on, err := formsOf(f, set, door || f.Docroot != "")
	on.Shared = true
	asked := false
	set.Visit(func(fl *flag.Flag) { asked = asked || fl.Name == "archive" })
	on.Archive = on.Archive && (on.Pages || asked) // a preset enables only what is possible
	switch {
	case err != nil:
	case door && on.Serve && !on.Pages:
		err = command.Misusef("--serve-pages needs --pages at a door, and at the notifier that writes: it has no files")
	case on.Archive && !on.Pages:
		err = command.Misusef("--archive with --log needs --pages, at the doors and at the notifier that writes: a door learns with the contents of pages whether it may still deliver an archive")
	case f.senders.ownHub || len(f.journal.Former) > 0:
		err = command.Misusef("--hub and --moved-from do not work with --log yet")
	}
	f.outputs.served = err == nil
	return on, err
}
