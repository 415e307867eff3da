// Links measures what it costs to read pages as the crawler does, and whether
// reading them less would lose any:
//
//	go run ./bench/links DIR...          # how fast; default /usr/share/cppreference
//	go run ./bench/links -reach DIR/index.html
//
// The first reads the pages below each DIR, at most -mb of them, in rounds in
// which everything takes its turn, and prints medians of processor time: MB/s
// and how that compares with the tokenizer of x/net looking for the same
// links, which is what a simple crawler does. On a mature lexer that this
// repository does not depend on, tdewolff/parse, the same was measured once: 2.9
// times the tokenizer, with no entities decoded.
//
// The second follows links from file to file, and counts what a crawl that
// ignores the links of exact duplicates (P17) would not find.
package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"github.com/parleyweb/parley/bench/internal/program"
)

func main() { program.Main("links", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("links", flag.ContinueOnError)
	mb := flags.Int("mb", 64, "read at most so many MB of pages of a directory")
	rounds := flags.Int("rounds", 7, "rounds, of which the median counts")
	walk := flags.Bool("reach", false, "follow the links of the file that is named, and of all that they lead to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *mb < 1 || *rounds < 1 {
		return errors.New("-mb and -rounds must be at least 1")
	}
	names := flags.Args()
	if len(names) == 0 {
		names = []string{"/usr/share/cppreference"}
	}
	for _, name := range names {
		err := ctx.Err()
		switch {
		case err != nil:
		case *walk:
			err = reach(name, out)
		default:
			err = speed(name, *mb<<20, *rounds, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
