package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/parleyweb/parley/server/inventory"
)

// list prints what would be published, then what is left out by reason. It
// reads the pages, since some can be left out for what they say.
func (j *job) list(ctx context.Context) error {
	site, err := j.inventory(nil)
	if err != nil {
		return err
	}
	type left struct {
		Reason string   `json:"reason"`
		Places []string `json:"places"`
	}
	var out struct {
		Published []string `json:"published"`
		LeftOut   []*left  `json:"left_out"`
		Unseen    []string `json:"unseen,omitempty"`
	}
	out.Published, out.LeftOut = []string{}, []*left{} // in JSON, none is [] and not null
	byReason := map[string]*left{}
	found, err := survey(ctx, site, site.Read, func(o inventory.Offer, unread error) {
		switch {
		case unread != nil:
			out.Unseen = append(out.Unseen, unread.Error())
		case o.LeftOut == "":
			out.Published = append(out.Published, o.URL)
		default:
			reason, _, _ := strings.Cut(o.LeftOut, ":")
			if byReason[reason] == nil {
				byReason[reason] = &left{Reason: reason}
				out.LeftOut = append(out.LeftOut, byReason[reason])
			}
			byReason[reason].Places = append(byReason[reason].Places, cmp.Or(o.Place, o.URL))
		}
	})
	if err != nil {
		return err
	}
	for place := range found.Unreadable {
		found.Unreadable[place] = "" // the line with the cause comes before
	}
	incomplete := j.incomplete(&found)
	if n, most := len(out.Published), j.site.Publish.Pages.Max; most > 0 && n > most {
		incomplete = errors.Join(incomplete, fmt.Errorf("these are %d pages, more than --max-pages %d: no new page would be published", n, most))
	}
	if j.json {
		return errors.Join(j.env.PrintJSON(out), incomplete)
	}
	w := bufio.NewWriter(j.env.Stdout)
	for _, u := range out.Published {
		fmt.Fprintln(w, "publish ", u)
	}
	for _, l := range out.LeftOut {
		for _, p := range l.Places {
			fmt.Fprintf(w, "leave out %q: %s\n", p, l.Reason)
		}
	}
	for _, u := range out.Unseen {
		fmt.Fprintln(w, "unread  ", u)
	}
	fmt.Fprintf(w, "%d pages would be published.", len(out.Published))
	for _, l := range out.LeftOut {
		fmt.Fprintf(w, " %d left out: %s.", len(l.Places), l.Reason)
	}
	fmt.Fprintln(w, "\nNext: to publish the site, run the same command with --out FILE instead of --dry-run.")
	return errors.Join(w.Flush(), incomplete)
}

// survey scans a site and reads each page that is not left out, as a first run would. It calls each with every offer, and
// why it could not be read.
func survey(ctx context.Context, site inventory.Inventory, read func(context.Context, inventory.Offer) (inventory.Offer, error),
	each func(o inventory.Offer, unread error)) (inventory.Report, error) {
	found := inventory.Report{Unreadable: make(map[string]string)}
	unread := func(o inventory.Offer, place string, err error) {
		found.Unreadable[place] = err.Error()
		each(o, err)
	}
	for o, err := range site.Scan(ctx, nil) {
		var unseen *inventory.UnseenError
		if err == nil && o.LeftOut == "" {
			r, err := read(ctx, o)
			switch {
			case ctx.Err() != nil:
				return found, ctx.Err()
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				unread(o, o.Place, err)
				continue
			}
			o = r
		}
		switch {
		case errors.As(err, &unseen):
			unread(o, unseen.Place, unseen)
			continue
		case err != nil:
			return found, err
		case o.LeftOut == "":
			found.New++
		default:
			found.LeftOut++
		}
		each(o, nil)
	}
	found.Unread = len(found.Unreadable)
	return found, nil
}
