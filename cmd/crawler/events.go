package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/client/collection"
	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/contents"
	"github.com/parleyweb/parley/internal/pause"
	"github.com/parleyweb/parley/internal/textual"
	"github.com/parleyweb/parley/protocol"
)

// An eventLine is an event for an indexer, with the main text if that is requested and has changed.
type eventLine struct {
	collection.Event
	Body       string `json:"body,omitempty"`        // the main text
	BodyFormat string `json:"body_format,omitempty"` // plain or markdown
	BodyCut    bool   `json:"body_cut,omitempty"`    // Body is truncated
}

func (d *localAPI) events(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	var after protocol.Cursor
	if at := q.Get("after"); at != "" {
		var err error
		if after, err = protocol.ParseCursor(at); err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
	}
	var text textual.Reader
	if err := text.Format.Set(cmp.Or(q.Get("text"), "none")); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	follow := q.Get("follow") == "true" && d.crawler != nil // without a crawler nothing more will come
	if follow {
		w.Header().Set(eachLine, "true")
	}
	lines(w, func(yield func(eventLine, error) bool) {
		for e, err := range d.col.Events(req.Context(), after, follow) {
			if req.Context().Err() != nil {
				return
			}
			l := eventLine{Event: e}
			if err == nil {
				err = d.read(&l, &text)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	})
}

// maxText is the number of bytes of a page that are read for its text.
const maxText = textual.DefaultMaxPage

// read adds the main text to an event, unless the body is no longer stored.
func (d *localAPI) read(l *eventLine, text *textual.Reader) error {
	if text.Format == textual.None || l.Op == protocol.Delete || !l.TextChanged || l.Stored.File == "" {
		return nil
	}
	content, err := d.col.Contents().Body(l.Stored)
	if err != nil {
		d.log.Warn("event without main text: its body cannot be read", "url", l.URL, "err", err)
		return nil
	}
	defer content.Close()
	if content.Authorized {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(content, maxText))
	if errors.Is(err, contents.ErrBodyDamaged) { // the page will be fetched again: another event
		d.log.Warn("event without main text: its body cannot be read", "url", l.URL, "err", err)
		return nil
	} else if err != nil {
		return err
	}
	mediaType := l.Type
	if t := content.Header.Get("Content-Type"); t != "" {
		mediaType = t
	}
	t := text.Read(l.URL, mediaType, b)
	if t.Format != textual.None {
		l.Body, l.BodyFormat, l.BodyCut = t.Body, t.Format.String(), t.Cut
	}
	return nil
}

func events() *command.Command {
	var c collectionFlags
	var after string
	var follow bool
	var text textual.Format
	return onCollection(&command.Command{
		Name:    "events",
		Summary: "print what has changed in a collection, for an indexer",
		Usage:   "--into DIR [options]",
		Help: `
One line of JSON for each page that was created, updated, deleted or moved:

    crawler events --into crawl/ --follow
    crawler events --into crawl/ --after epoch:1234 --follow --text markdown
    crawler events --cluster nats://a:4222,nats://b:4222 --follow

Store the cursor of each event together with what you have made of it, and
continue with --after: nothing is lost or repeated, however often you or the
crawler are stopped. Without --after, events begin with the first.
The last million changes are kept, for 90 days. With an older cursor begin
again without --after, which starts with the pages stored now. With --cluster the
last --cluster-events of "crawler run" are kept, and without --after it starts with
the first of these: "crawler pages --cluster" lists the pages stored now.
An event with "text_changed": false needs no indexing: the main text is the
same as before (this needs --text-digest in the crawler).

Exit codes: 0 all events were printed, or stopped by a signal; 1 something
failed; 3 the cursor is no longer valid: begin again without --after; 2 wrong
usage.`,
		Args: []string{"--into"},
		Flags: c.flags(
			command.Bind("after", &after, "begin after `CURSOR`, which is that of the last event you have processed"),
			command.Bind("follow", &follow, "wait for further events"),
			command.Bind("text", &text, "add the main text as `FORM`: plain or markdown")),
		Run: func(ctx context.Context, env *command.Env) error {
			if after == "" {
				after = protocol.Cursor{}.String()
			}
			if _, err := protocol.ParseCursor(after); err != nil {
				return command.Misusef("--after %s: want the cursor of an event, such as epoch:1234", after)
			}
			if c.cluster.servers != "" && text != textual.None {
				return command.Misusef("--text does not work with --cluster: \"crawler get\" has the page of an event")
			}
			t := eventPrinter{collectionFlags: &c, after: after, text: text, env: env}
			err := t.tell(ctx, follow)
			if err != nil && isCursor(err) {
				return &command.ExitError{Code: 3, Err: err}
			}
			return err
		},
	})
}

// An eventPrinter prints events, and remembers the cursor of the last.
type eventPrinter struct {
	*collectionFlags
	after string
	text  textual.Format
	env   *command.Env
}

// again is how long a follower waits before it asks again, while no crawler runs.
const again = time.Second

// tell prints the events so far and, with follow, new ones until ctx ends, from whichever crawler runs: while
// none runs, the collection is read from time to time, and released in between for one that starts.
func (t *eventPrinter) tell(ctx context.Context, follow bool) error {
	for {
		err := t.stream(ctx, follow)
		if !follow || ctx.Err() != nil {
			return quiet(ctx, err)
		}
		if err != nil {
			var output *command.ExitError
			if isCursor(err) || errors.As(err, &output) {
				return err
			}
			t.env.Log.Warn("events are interrupted until a crawler answers again", "err", err)
		}
		if !pause.For(ctx, again) {
			return nil
		}
	}
}

// quiet returns err, or nil if ctx has ended.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// stream prints one response.
func (t *eventPrinter) stream(ctx context.Context, follow bool) (err error) {
	if t.cluster.servers != "" {
		return t.streamCluster(ctx, follow)
	}
	q := url.Values{"after": {t.after}, "text": {t.text.String()}, "follow": {strconv.FormatBool(follow)}}
	body, err := ask(ctx, t.dir, "GET", "/events?"+q.Encode(), nil, t.env.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	for r := bufio.NewReader(body); ; {
		line, err := r.ReadBytes('\n')
		if err != nil { // a truncated line is sent again
			if err == io.EOF && len(line) == 0 {
				return nil
			}
			return err
		}
		if _, err := t.env.Stdout.Write(line); err != nil {
			return &command.ExitError{Code: command.Failure, Err: err}
		}
		var e struct{ Cursor protocol.Cursor }
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if !e.Cursor.IsZero() {
			t.after = e.Cursor.String()
		}
	}
}

// streamCluster prints the events of all partitions.
func (t *eventPrinter) streamCluster(ctx context.Context, follow bool) error {
	a, err := t.cluster.open(ctx)
	if err != nil {
		return err
	}
	defer a.done()
	after, err := protocol.ParseCursor(t.after)
	if err != nil {
		return err
	}
	return a.Events(ctx, after, follow, func(at protocol.Cursor, partition int, event []byte) error {
		if _, err := fmt.Fprintf(t.env.Stdout, "{\"cursor\":%q,\"partition\":%d,%s\n", at, partition, event[1:]); err != nil {
			return &command.ExitError{Code: command.Failure, Err: err}
		}
		t.after = at.String()
		return nil
	})
}

// isCursor reports whether an error, possibly from another process, is about a cursor.
func isCursor(err error) bool {
	s := err.Error()
	return errors.Is(err, protocol.ErrEpoch) || errors.Is(err, protocol.ErrTooOld) ||
		strings.Contains(s, protocol.ErrEpoch.Error()) || strings.Contains(s, protocol.ErrTooOld.Error())
}

// An exporting is the request of "crawler export".
type exporting struct {
	Dir, Coding, Prefix string
	Since, Until        time.Time
	Newest              bool
}

func (d *localAPI) export(w http.ResponseWriter, req *http.Request) {
	var x exporting
	if decode(w, req, 1<<20, &x) {
		n, err := d.col.ExportWARC(req.Context(), x.Dir, x.Coding, collection.Selection{Prefix: x.Prefix, Since: x.Since, Until: x.Until, Newest: x.Newest})
		answer(w, n, err)
	}
}

func (d *localAPI) urls(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	s := collection.Selection{Prefix: q.Get("prefix"), Newest: q.Get("newest") == "true"}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if _, err := d.col.ExportURLs(req.Context(), w, s); err != nil {
		panic(http.ErrAbortHandler) // so that the client does not take it for complete
	}
}

func export() *command.Command {
	bind := command.Bind
	var c collectionFlags
	var to, prefix, since, until string
	var all bool
	coding := "gzip"
	return onCollection(&command.Command{
		Name:    "export",
		Summary: "write a collection, or part of it, as WARC files or a list of URLs",
		Usage:   "--into DIR [options]",
		Help: `
    crawler export --into crawl/ > urls.txt
    crawler export --into crawl/ --warc out/ --prefix https://www.example.org/
    crawler export --into crawl/ --warc out/ --all --since 2026-11-01

It writes the pages stored now; with --all also older versions and deleted
pages. The directory for WARC files must not contain any yet. Records that
cannot be read are skipped, and the exit code is then 1.`,
		Args: []string{"--into"},
		Flags: c.flags(
			bind("warc", &to, "write WARC files and their index into `DIR` (default: print a list of URLs)"),
			bind("coding", &coding, "compress records with `CODING`: none, gzip or zstd"),
			bind("prefix", &prefix, "only pages whose URL begins with `URL`"),
			bind("since", &since, "only pages fetched since `TIME`"),
			bind("until", &until, "only pages fetched before `TIME`"),
			bind("all", &all, "include older versions and deleted pages")),
		Run: func(ctx context.Context, env *command.Env) error {
			if to == "" {
				q := url.Values{"prefix": {prefix}, "newest": {strconv.FormatBool(!all)}}
				return copyAnswer(ctx, env, &c, "/urls?"+q.Encode())
			}
			if c.cluster.servers != "" {
				return command.Misusef("--warc %s: with --cluster only a list of URLs is printed: give the command on each machine, with --into DIR/partition-...", to)
			}
			x := exporting{Prefix: prefix, Newest: !all}
			switch coding {
			case "none":
			case "gzip", "zstd":
				x.Coding = coding
			default:
				return command.Misusef("--coding %s: want none, gzip or zstd", coding)
			}
			var err error
			if x.Dir, err = filepath.Abs(to); err != nil { // the process that holds the collection has another working directory
				return err
			}
			if err := os.MkdirAll(x.Dir, 0o755); err != nil {
				return err
			}
			for _, t := range []struct {
				name, value string
				to          *time.Time
			}{{"since", since, &x.Since}, {"until", until, &x.Until}} {
				if t.value == "" {
					continue
				}
				d, err := protocol.ParseDate(t.value)
				if err != nil {
					return command.Misusef("--%s %s: want a date such as 2026-11-01", t.name, t.value)
				}
				*t.to = d.Time
			}
			var n int
			if err := c.askJSON(ctx, "POST", "/export", x, &n, env.Log); err != nil {
				return err
			}
			fmt.Fprintf(env.Stderr, "%d records written to %s\n", n, to)
			return nil
		},
	})
}
