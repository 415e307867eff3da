//go:build linux

// Listeners measures what one change costs a site with many open streams, beside gorilla's broadcast of a
// prepared message and beside a bare loop of write(2) with the same bytes.
//
//	go run ./bench/listeners [--listeners 1000,10000] [--rounds 15] [--burst 1000] [--sides write,gorilla,parley,doors] [--parley PROGRAM]
//
// Each side is a process of its own, with another process whose connections read. The sides take turns: in each
// round each sends one change to all its listeners. Printed are the median of the processor time of the sending
// process, its memory per idle listener, and a burst: changes that follow each other as fast as the journal stores
// them. gorilla and write send a tenth of the burst, one message for each change.
//
// The side "doors", which is measured if it is named, is a site whose log is in NATS: a NATS server, the writer and four doors in the sending process.
//
// --parley PROGRAM runs this measurement's program of another commit as a fourth side, "other".
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/parleyweb/parley/bench/internal/cost"
	"github.com/parleyweb/parley/bench/internal/goal"
	"github.com/parleyweb/parley/bench/internal/program"
)

func main() {
	program.Main("listeners", func(ctx context.Context, args []string, out io.Writer) error {
		switch {
		case len(args) == 2 && args[0] == "send":
			return send(ctx, args[1], os.Stdin, out)
		case len(args) == 3 && args[0] == "read":
			return read(ctx, args[1], args[2], os.Stdin, out)
		}
		return run(ctx, args, out)
	})
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("listeners", flag.ContinueOnError)
	counts := flags.String("listeners", "1000,10000", "numbers of listeners")
	rounds := flags.Int("rounds", 15, "changes, one at a time")
	burst := flags.Int("burst", 1000, "changes in the burst; 0: none")
	sides := flags.String("sides", "write,gorilla,parley", "what is measured")
	other := flags.String("parley", "", "this program as built from another commit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	goals := goal.Sheet{Out: out}
	for field := range strings.SplitSeq(*counts, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		names := strings.Split(*sides, ",")
		if *other != "" {
			names = append(names, "other")
		}
		if err := measure(ctx, n, *rounds, *burst, names, *other, &goals); err != nil {
			return fmt.Errorf("%d listeners: %w", n, err)
		}
	}
	return goals.Err()
}

// A side is a sending process and a reading one.
type side struct {
	name          string
	sender        *child
	reader        *child
	idle, drained int64           // bytes of memory of the sender, without and with listeners
	each          []time.Duration // processor time of the sender for one change
	wall          []time.Duration // until the last listener has it
	last          int             // the change sent last
}

func measure(ctx context.Context, n, rounds, burst int, names []string, other string, goals *goal.Sheet) (err error) {
	out := goals.Out
	var all []*side
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.reader.end(), s.sender.end())
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range names {
		path, mode := self, name
		if name == "other" {
			path, mode = other, "parley"
		}
		s := &side{name: name}
		if s.sender, err = start(ctx, path, "send", mode); err != nil {
			return err
		}
		address, err := s.sender.line()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if s.reader, err = start(ctx, self, "read", address, strconv.Itoa(n)); err != nil {
			return err
		}
		all = append(all, s)
		if s.idle, err = s.sender.ask("memory 0"); err != nil {
			return err
		}
		if _, err := s.reader.ask("connect"); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if s.drained, err = s.sender.ask(fmt.Sprintf("memory %d", n)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for i := range rounds + 1 {
		for _, s := range all {
			cpu, wall, err := s.changes(1)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if i > 0 { // the first is for warming up
				s.each, s.wall = append(s.each, cpu), append(s.wall, wall)
			}
		}
	}
	fmt.Fprintf(out, "%d listeners\n", n)
	for _, s := range all {
		fmt.Fprintf(out, "  %-8s one change: %8.2f ms of processor time, %5.2f us each, %5.2f times %s; last listener after %6.1f ms; idle %5.1f KiB each\n", s.name,
			cost.Median(s.each).Seconds()*1e3, cost.Median(s.each).Seconds()*1e6/float64(n), float64(cost.Median(s.each))/float64(cost.Median(all[0].each)), all[0].name,
			cost.Median(s.wall).Seconds()*1e3, float64(s.drained-s.idle)/1024/float64(n))
	}
	for _, s := range all {
		if s.name == "doors" {
			goals.AtMost(500, cost.Median(s.wall).Seconds()*1e3, "ms until one change is at all %d listeners of four doors", n)
		}
		if s.name == "parley" {
			for _, d := range all {
				if d.name == "doors" {
					goals.AtMost(1.1, float64(d.drained-d.idle)/float64(s.drained-s.idle), "memory of %d idle listeners of four doors / of one notifier", n)
				}
			}
			if all[0].name == "write" {
				goals.AtMost(1.2, float64(cost.Median(s.each))/float64(cost.Median(all[0].each)), "one change to %d listeners: CPU / that of write(2)", n)
			}
			goals.AtMost(10, float64(s.drained-s.idle)/1024/float64(n), "KiB for each of %d idle listeners", n)
		}
	}
	if burst == 0 {
		return nil
	}
	each := make(map[string]float64) // seconds of processor time for a change of the burst, by side
	for _, s := range all {
		changes := burst
		if s.name == "gorilla" || s.name == "write" {
			changes = max(1, burst/10)
		}
		cpu, wall, err := s.changes(changes)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(out, "  %-8s burst of %d changes: %7.2f s of processor time, %6.2f ms a change; last listener after %.2f s\n", s.name, changes,
			cpu.Seconds(), cpu.Seconds()*1e3/float64(changes), wall.Seconds())
		each[s.name] = cpu.Seconds() / float64(changes)
	}
	if p, g := each["parley"], each["gorilla"]; p > 0 && g > 0 {
		goals.AtLeast(10, g/p, "burst of %d changes to %d listeners: CPU of gorilla's broadcast of each / ours", burst, n)
	}
	return nil
}

// changes makes n changes, and returns when every listener has the last one.
func (s *side) changes(n int) (cpu, wall time.Duration, err error) {
	before, err := s.sender.ask("cpu")
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if _, err := s.sender.ask(fmt.Sprintf("change %d", n)); err != nil {
		return 0, 0, err
	}
	s.last += n
	if _, err := s.reader.ask(fmt.Sprintf("wait %d", s.last)); err != nil {
		return 0, 0, err
	}
	wall = time.Since(began)
	after, err := s.sender.ask("cpu")
	return time.Duration(after - before), wall, err
}

// A child is a process that answers each line of its input with one line.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(ctx context.Context, path string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, path, args...)}
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(stdout)
	return c, c.cmd.Start()
}

func (c *child) line() (string, error) {
	s, err := c.out.ReadString('\n')
	return strings.TrimSuffix(s, "\n"), err
}

// ask sends a line, and returns the number in the answer.
func (c *child) ask(question string) (int64, error) {
	if _, err := fmt.Fprintln(c.in, question); err != nil {
		return 0, err
	}
	answer, err := c.line()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", question, err)
	}
	return strconv.ParseInt(answer, 10, 64)
}

func (c *child) end() error {
	if c == nil {
		return nil
	}
	c.in.Close()
	return c.cmd.Wait()
}
