package siteflags

import (
	"flag"
	"strings"

	"github.com/parleyweb/parley/internal/command"
)

// Forms are the options for the forms in which changes are delivered, and for queries. A preset sets them
// all; each can be overridden.
type Forms struct {
	Stream      bool    // subscriptions and long polls
	Pages       bool    // pages themselves: the forms page and batch
	Versions    int64   // bytes of old versions to keep, for differences: the form delta
	Archive     bool    // the whole site as one file: the form site
	Share       float64 // of the site that must have changed for its archive to be announced
	Query       bool    // current items, filtered
	Expressions bool    // filters that are expressions
	Serve       bool    // requests for the pages' own URLs
	Expires     bool    // with a prediction of each page's next change
	Callers     string  // FILE of callers that may ask for more than anonymous ones
	Trust       bool    // content needs no evidence

	preset string
}

// preset returns the options for an admin's budget (Castillo 2004, 6.4: C43).
func preset(budget string) (o Forms, ok bool) {
	switch budget {
	case "low":
		return Forms{}, true
	case "moderate":
		return Forms{Stream: true}, true
	case "high":
		return Forms{Stream: true, Pages: true, Versions: 1 << 30, Archive: true, Query: true, Expressions: true}, true
	}
	return Forms{}, false
}

// DoorOptions returns the options of a program that has doors, among them that of a hub of one's own.
func (f *Flags) DoorOptions() []command.Flag {
	bind := command.Bind
	o := &f.forms
	*o = Forms{preset: "moderate", Stream: true, Share: 0.5}
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
	o, ok := preset(f.forms.preset)
	if !ok {
		return Forms{}, command.Misusef("--preset %s: want low, moderate or high", f.forms.preset)
	}
	said := &f.forms
	o.Share, o.Serve, o.Expires, o.Callers, o.Trust = said.Share, said.Serve, said.Expires, said.Callers, said.Trust
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
	case f.Docroot == "":
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

// String names the enabled forms, for people.
func (o Forms) String() string {
	var on []string
	for _, x := range []struct {
		name string
		on   bool
	}{{"manifest and changes", true}, {"stream", o.Stream}, {"pages", o.Pages}, {"differences", o.Versions > 0}, {"archive", o.Archive},
		{"query", o.Query}, {"expressions", o.Expressions}, {"pages served", o.Serve}} {
		if x.on {
			on = append(on, x.name)
		}
	}
	return strings.Join(on, ", ")
}
