// Hostile measures how a crawler that asks a site for as much as it can affects other clients (C13, C14).
//
//	go run ./bench/hostile [-docroot DIR] [-pages 300] [-rounds 3] [-for 4s] [-only cel] [-pin=false]
//
// A real notifier publishes pages that are edited at random, about eight times a second. Honest clients
// measure, first alone and then beside each attack, in turns and for several rounds:
//
//   - told: the time from an edit until a stream delivers it, as=meta;
//   - with page: the same for a stream as=page;
//   - asked: a request for ten changes at the changes door;
//   - page: a page that the notifier serves.
//
// It prints the median, the 99th percentile and the maximum of each, the first two as multiples of their
// values without an attack, how many of the edits were delivered, the memory of the notifier, and the
// responses to the attackers. An edit counts as not delivered after ten seconds.
//
// The attackers' own computing must not count as slowness of the site. So the notifier, with the programs
// that it runs for crawlers, and the honest side share one processor, with and without an attack, and the
// attackers get another (sched_setaffinity). With -pin=false, on a machine with one processor, or on systems
// other than Linux, all share the processors, and the attackers have the lowest priority (nice 19). A site
// with one processor is the harder case.
//
// All traffic stays on the loopback. The notifier takes a client from there for a proxy, so X-Forwarded-For
// gives the address of a request; the addresses are from the networks for documentation. Each attack ends by
// itself.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parleyweb/parley/bench/internal/program"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

type options struct {
	docroot string
	pages   int
	rounds  int
	last    time.Duration
	only    string
	pin     bool
	theirs  int // the attackers' processor
	notify  string
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) > 0 && args[0] == "attack" {
		return attack(ctx, args[1:], out)
	}
	var o options
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	flags.StringVar(&o.docroot, "docroot", "/usr/share/doc/git-doc", "directory whose pages are copied")
	flags.IntVar(&o.pages, "pages", 300, "number of pages")
	flags.IntVar(&o.rounds, "rounds", 3, "rounds of all measurements")
	flags.DurationVar(&o.last, "for", 4*time.Second, "duration of each attack, and of the quiet measurement before it")
	flags.StringVar(&o.only, "only", "", "run only attacks whose names contain one of these comma-separated words")
	ours, theirs, two := twoProcessors()
	flags.BoolVar(&o.pin, "pin", two, "run the notifier and the honest clients on one CPU and the attackers on another")
	flags.StringVar(&o.notify, "notifier", "", "path of a notifier binary to use instead of building one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.theirs = theirs; o.pin && !two {
		return errors.New("this machine does not have two separate CPUs: set -pin=false")
	}
	dir, err := os.MkdirTemp("", "parley-hostile-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.notify == "" {
		if err := program.Build(ctx, dir, "notifier"); err != nil {
			return err
		}
		o.notify = filepath.Join(dir, "notifier")
	}
	if o.pin {
		if err := stayOn(ours); err != nil {
			return err
		}
	}
	s, err := start(ctx, dir, o)
	if err != nil {
		return err
	}
	defer s.listening.Wait()
	defer s.notifier.End()

	var peace phase
	var chosen []kind
	for _, k := range attacks() {
		if slices.ContainsFunc(strings.Split(o.only, ","), func(word string) bool { return strings.Contains(k.name, word) }) {
			chosen = append(chosen, k)
		}
	}
	beside := make([]phase, len(chosen))
	for range o.rounds {
		for i, k := range chosen {
			if err := s.measure(ctx, &peace, o.last); err != nil {
				return err
			}
			p, err := s.attacker(ctx, k, o, &beside[i])
			if err != nil {
				return err
			}
			time.Sleep(time.Second / 2) // the attack has started
			err = s.measure(ctx, &beside[i], o.last)
			p.End()
			s.calm()
			if err = errors.Join(err, p.Err()); err != nil {
				return fmt.Errorf("%s: %w\n%s", k.name, err, p.Tail())
			}
			if s.notifier.Ended() {
				return fmt.Errorf("%s: the notifier exited: %w\n%s", k.name, s.notifier.Err(), s.notifier.Tail())
			}
		}
	}
	return report(out, chosen, &peace, beside)
}

// A phase holds the measurements beside one attack, over all rounds.
type phase struct {
	told, withPage, asked, page []time.Duration
	edits                       int
	memory                      int64 // of the notifier at its end, the maximum of all rounds
	answers                     map[string]int
	words                       map[string]string // an example for each status
}

func report(out io.Writer, chosen []kind, peace *phase, beside []phase) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "attack\tpush, ms\t\tpush with page\t\tpoll\t\tpage\t\tedits delivered\tmemory")
	row := func(name string, p *phase) {
		fmt.Fprint(t, name)
		for _, c := range [][2][]time.Duration{{p.told, peace.told}, {p.withPage, peace.withPage}, {p.asked, peace.asked}, {p.page, peace.page}} {
			fmt.Fprintf(t, "\t%s\t%s", quantiles(c[0]), ratios(c[0], c[1]))
		}
		fmt.Fprintf(t, "\t%d and %d of %d\t%d MB\n", len(p.told), len(p.withPage), p.edits, p.memory>>20)
	}
	row("nobody", peace)
	for i := range chosen {
		row(chosen[i].name, &beside[i])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nEach: median, 99th percentile and maximum; median and 99th percentile relative to no attack.\nAnswers to the attackers:")
	for i := range chosen {
		p := &beside[i]
		fmt.Fprintf(out, "  %s: %s\n", chosen[i].name, chosen[i].what)
		for _, status := range slices.Sorted(keysOf(p.answers)) {
			fmt.Fprintf(out, "    %d x %s %s\n", p.answers[status], status, p.words[status])
		}
	}
	return nil
}

func keysOf(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// at returns a quantile of a sorted list, in milliseconds.
func at(d []time.Duration, q float64) float64 {
	if len(d) == 0 {
		return 0
	}
	return float64(d[min(len(d)-1, int(q*float64(len(d))))]) / float64(time.Millisecond)
}

func quantiles(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("%.1f %.1f %.1f", at(d, .5), at(d, .99), at(d, 1))
}

func ratios(d, base []time.Duration) string {
	slices.Sort(base)
	if len(d) == 0 || len(base) == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1fx %.1fx", at(d, .5)/at(base, .5), at(d, .99)/at(base, .99))
}

// attacker starts an attack in another process.
func (s *site) attacker(ctx context.Context, k kind, o options, p *phase) (*program.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	lines := func(line []byte) error {
		var said struct {
			Answers map[string]int
			Words   map[string]string
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return err
		}
		if p.answers == nil {
			p.answers, p.words = map[string]int{}, map[string]string{}
		}
		for status, n := range said.Answers {
			p.answers[status] += n
			p.words[status] = said.Words[status]
		}
		return nil
	}
	args := []string{"attack", "-base", s.base, "-from", s.from.String(), "-page", s.pages[0], "-for", (o.last + 3*time.Second).String(), "-name", k.name}
	if o.pin {
		args = append(args, "-on", strconv.Itoa(o.theirs))
	}
	return program.Start(ctx, lines, self, args...)
}

// calm waits until the notifier has finished its pending work: it uses less than a tenth of a processor, or
// 15 s have passed.
func (s *site) calm() {
	for range 30 {
		before := worked(s.notifier.PID())
		time.Sleep(500 * time.Millisecond)
		if worked(s.notifier.PID())-before < 5 {
			return
		}
	}
}

// worked returns the processor time of a process, in hundredths of a second; zero if the system does not
// provide it.
func worked(pid int) (ticks int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, f := range fields[11:13] {
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return ticks
}

// rss returns the resident memory of a process in bytes; zero if the system does not provide it.
func rss(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(status), "VmRSS:")
	line, _, _ = strings.Cut(line, "kB")
	n, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return n << 10
}

func free() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
