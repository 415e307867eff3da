package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parleyweb/parley/internal/command"
	"github.com/parleyweb/parley/internal/engine/seed"
	"github.com/parleyweb/parley/internal/holder"
	"github.com/parleyweb/parley/internal/nats/cluster"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/protocol"
)

// A clusterName says which crawl of several machines is meant.
type clusterName struct{ servers, creds, name string }

func (c *clusterName) flags(help string) []command.Flag {
	bind := command.Bind
	c.name = "crawl"
	return []command.Flag{
		bind("cluster", &c.servers, help),
		bind("cluster-creds", &c.creds, "connect to NATS with the credentials in `FILE`, instead of a user and password, or a token, in the URLs of --cluster"),
		bind("cluster-name", &c.name, "`NAME` of the crawl, if several crawls share an account of NATS"),
	}
}

// An asked is the crawl of a cluster that is asked.
type asked struct {
	*cluster.Crawl
	done func()
}

func (c *clusterName) open(ctx context.Context) (*asked, error) {
	nc, err := jetlog.Connect(c.servers, c.creds)
	if err != nil {
		return nil, fmt.Errorf("--cluster: connect to NATS: %w", err)
	}
	crawl, err := cluster.Find(ctx, nc, c.name)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("--cluster: %w", err)
	}
	return &asked{crawl, nc.Close}, nil
}

// stream sends a request to a partition.
func (a *asked) stream(ctx context.Context, number int, method, path string, in any) (io.ReadCloser, error) {
	body, err := holder.Over(ctx, func(ctx context.Context) (net.Conn, error) { return a.Dial(ctx, number) }, method, path, in)
	if err != nil {
		return nil, fmt.Errorf("ask partition %d: %w", number, err)
	}
	return body, nil
}

// of returns the partition of a URL as typed.
func (a *asked) of(page string) int {
	if canonical, err := protocol.CanonicalURL("", page); err == nil {
		page = canonical
	}
	return a.Of(page)
}

// mostAsked is how many partitions are asked at once.
const mostAsked = 16

// A silence is the error that some partitions are missing in an answer.
type silence struct{ numbers []int }

func (s *silence) Error() string {
	names := make([]string, len(s.numbers))
	for i, n := range s.numbers {
		names[i] = strconv.Itoa(n)
	}
	return "no machine answers for these partitions, which are left out: " + firstOf(names)
}

// each calls ask for all partitions. If some do not answer and nothing else goes wrong, it returns a silence.
func (a *asked) each(ask func(number int) error) error {
	var mu sync.Mutex // guards the next two
	var missing silence
	var failed error
	var wg sync.WaitGroup
	room := make(chan struct{}, mostAsked)
	for number := 1; number <= a.Partitions; number++ {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			err := ask(number)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, cluster.ErrNobody):
				missing.numbers = append(missing.numbers, number)
			case failed == nil:
				failed = err
			}
		})
	}
	wg.Wait()
	if slices.Sort(missing.numbers); failed == nil && len(missing.numbers) > 0 {
		failed = &missing
	}
	return failed
}

// ask sends a request about a URL, which is in the path or the request itself, to its partition. Of any other it returns the lines of all partitions, those
// of sites in order; instead of the end comes an error if partitions are missing.
func (c *clusterName) ask(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	a, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	page, _ := in.(string)
	if u, err := url.Parse(path); err == nil && page == "" {
		page = u.Query().Get("url")
	}
	if page != "" {
		body, err := a.stream(ctx, a.of(page), method, path, in)
		if err != nil {
			a.done()
			return nil, err
		}
		return &closing{body, func() error { defer a.done(); return body.Close() }}, nil
	}
	from, to := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if path == "/sites" {
			to.CloseWithError(a.sites(ctx, to))
		} else {
			to.CloseWithError(a.chain(ctx, to, method, path, in))
		}
	}()
	return &closing{from, func() error {
		defer a.done()
		cancel()
		from.Close()
		<-ended
		return nil
	}}, nil
}

// A closing is a reader with a function that closes it.
type closing struct {
	io.Reader
	end func() error
}

func (c *closing) Close() error { return c.end() }

// chain writes what all partitions answer, one after another.
func (a *asked) chain(ctx context.Context, w io.Writer, method, path string, in any) error {
	var missing silence
	for number := 1; number <= a.Partitions; number++ {
		body, err := a.stream(ctx, number, method, path, in)
		if errors.Is(err, cluster.ErrNobody) {
			missing.numbers = append(missing.numbers, number)
			continue
		}
		if err == nil {
			_, err = io.Copy(w, body)
			body.Close()
		}
		if err != nil {
			return err
		}
	}
	if len(missing.numbers) > 0 {
		return &missing
	}
	return nil
}

// A siteList is the list of the sites of a partition, and its next line.
type siteList struct {
	number int
	body   io.Closer
	lines  *bufio.Reader
	line   []byte
	origin string
}

// next reads a line. It returns io.EOF after the last.
func (l *siteList) next() (err error) {
	if l.line, err = l.lines.ReadBytes('\n'); err == io.EOF && len(l.line) == 0 {
		return io.EOF
	}
	var row struct{ Origin string }
	if err == nil {
		err = json.Unmarshal(l.line, &row)
	}
	if l.origin = row.Origin; err != nil {
		return fmt.Errorf("list the sites of partition %d: %w", l.number, err)
	}
	return nil
}

// sites writes the sites of all partitions, by origin.
func (a *asked) sites(ctx context.Context, w io.Writer) error {
	var mu sync.Mutex // guards the next one
	var lists []*siteList
	missing := a.each(func(number int) error {
		body, err := a.stream(ctx, number, "GET", "/sites?sorted=true", nil)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		lists = append(lists, &siteList{number: number, body: body, lines: bufio.NewReaderSize(body, 4<<10)})
		return nil
	})
	for _, l := range lists {
		defer l.body.Close()
	}
	if missing != nil && !errors.As(missing, new(*silence)) {
		return missing
	}
	var next []*siteList // by origin
	for _, l := range lists {
		next = slices.Insert(next, 0, l)
		if err := advance(&next); err != nil {
			return err
		}
	}
	for len(next) > 0 {
		if _, err := w.Write(next[0].line); err != nil {
			return err
		}
		if err := advance(&next); err != nil {
			return err
		}
	}
	return missing
}

// advance reads the next line of the first list, and moves it to its place among the others.
func advance(lists *[]*siteList) error {
	first := (*lists)[0]
	*lists = slices.Delete(*lists, 0, 1)
	err := first.next()
	if err == io.EOF {
		return nil
	}
	at, _ := slices.BinarySearchFunc(*lists, first.origin, func(l *siteList, origin string) int { return strings.Compare(l.origin, origin) })
	*lists = slices.Insert(*lists, at, first)
	return err
}

// askEach sends a request to all partitions, and calls got with each answer, one at a time.
func askEach[T any](ctx context.Context, c *clusterName, method, path string, in any, got func(number int, v *T)) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.done()
	var mu sync.Mutex // held while got runs
	return a.each(func(number int) error {
		body, err := a.stream(ctx, number, method, path, in)
		if err != nil {
			return err
		}
		defer body.Close()
		var v T
		if err := json.NewDecoder(body).Decode(&v); err != nil {
			return fmt.Errorf("ask partition %d: %w", number, err)
		}
		mu.Lock()
		defer mu.Unlock()
		got(number, &v)
		return nil
	})
}

// add has pages fetched by those who have their partitions.
func (c *clusterName) add(ctx context.Context, urls []string) ([]seed.Verdict, error) {
	a, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer a.done()
	all := make([]seed.Verdict, len(urls))
	places := map[int][]int{} // in urls, by partition
	for i, u := range urls {
		places[a.of(u)] = append(places[a.of(u)], i)
	}
	for number, at := range places {
		some := make([]string, len(at))
		for i, place := range at {
			some[i] = urls[place]
		}
		var verdicts []seed.Verdict
		body, err := a.stream(ctx, number, "POST", "/add", some)
		if err == nil {
			err = errors.Join(json.NewDecoder(body).Decode(&verdicts), body.Close())
		}
		if err == nil && len(verdicts) != len(at) {
			err = fmt.Errorf("ask partition %d: %d of %d URLs were judged", number, len(verdicts), len(at))
		}
		for i, place := range at {
			if err != nil { // others may be fetched
				all[place].Rule = err.Error()
			} else {
				all[place] = verdicts[i]
			}
		}
	}
	return all, nil
}

// clusterSummary is the response of "crawler status" for all partitions.
type clusterSummary struct {
	Partitions int   `json:"partitions"`
	Missing    []int `json:"missing,omitempty"` // partitions that nobody answers for
	summary
}

// status sums up the partitions. If some do not answer, it returns the others, and a silence.
func (c *clusterName) status(ctx context.Context) (s clusterSummary, err error) {
	err = askEach(ctx, c, "GET", "/status", nil, func(_ int, v *summary) {
		s.Partitions++
		s.add(v)
	})
	var missing *silence
	if errors.As(err, &missing) {
		s.Partitions, s.Missing = s.Partitions+len(missing.numbers), missing.numbers
	}
	return s, err
}

// printStatus prints the sums of all partitions that answer, and returns a silence if some do not.
func (c *clusterName) printStatus(ctx context.Context, env *command.Env, asJSON bool) error {
	s, missing := c.status(ctx)
	switch {
	case missing != nil && !errors.As(missing, new(*silence)):
		return missing
	case asJSON:
		return errors.Join(env.PrintJSON(s), missing)
	}
	printer(env)("partitions", "%d, of which %d answer", s.Partitions, s.Partitions-len(s.Missing))
	if s.Partitions > len(s.Missing) {
		printSummary(env, &s.summary)
	}
	return missing
}

// add adds the counts of another collection to s. What cannot be added is left out: cursors, policies, prices and estimates.
func (s *summary) add(o *summary) {
	sum(reflect.ValueOf(s).Elem(), reflect.ValueOf(o).Elem())
	sum(reflect.ValueOf(&s.Status).Elem(), reflect.ValueOf(&o.Status).Elem())
	if o.Running && (!s.Running || o.Began.Before(s.Began)) {
		s.Running, s.Began = true, o.Began
	}
	s.Trouble = append(s.Trouble, o.Trouble...)
	s.Trouble = s.Trouble[:min(len(s.Trouble), mostTrouble)]
	s.Predictions.Right += o.Predictions.Right
	s.Predictions.Wrong += o.Predictions.Wrong
	s.Steering = o.Steering
}

// sum adds the integers of a struct to those of another one.
func sum(to, from reflect.Value) {
	for i := range to.NumField() {
		if f := to.Field(i); f.CanInt() {
			f.SetInt(f.Int() + from.Field(i).Int())
		}
	}
}

// steer changes what is set in all partitions.
func (c *clusterName) steer(ctx context.Context, path string, in any) (s nowSet, err error) {
	first := true
	err = askEach(ctx, c, "POST", path, in, func(_ int, v *nowSet) {
		if s.Steering = v.Steering; first {
			s.Unknown, first = v.Unknown, false
		}
		s.Unknown = slices.DeleteFunc(s.Unknown, func(name string) bool { return !slices.Contains(v.Unknown, name) })
	})
	return s, err
}

// serveNATS answers to whoever has access to NATS, until ctx ends.
func (d *localAPI) serveNATS(ctx context.Context, p *cluster.Part, log *slog.Logger) {
	ln, err := p.Listen()
	if err == nil {
		err = serve(ctx, ln, d.contents())
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("commands with --cluster do not work for this partition", "err", err)
	}
}
