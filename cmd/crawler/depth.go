package main

import (
	"errors"
	"flag"
	"strconv"

	"github.com/parleyweb/parley/internal/browse"
	"github.com/parleyweb/parley/internal/command"
)

// A depthRule sets the limits of depth by a model of visitors (Castillo 2004, section 5.2.4), in place of WIRE's 15 and 5.
type depthRule struct {
	share float64 // 0: the limits stay
	q     string
}

func (d *depthRule) flags() []command.Flag {
	return []command.Flag{
		command.Bind("depth-for", &d.share, "limit the depth to that with the share `X` of what visitors see, such as 0.9, by --q, in place of --max-depth and --max-depth-dynamic"),
		command.Bind("q", &d.q, "with --depth-for: `Q`, the probability that a visitor goes one link deeper, and not back to the start (model B; A:Q or C:Q for the others); \"crawler simulate browsing --log FILE\" finds it in a site's access log"),
	}
}

// set sets the limits, at least 1, if there is a share.
func (d *depthRule) set(fs *flag.FlagSet) error {
	switch {
	case d.share == 0 && d.q == "":
		return nil
	case d.q == "":
		return command.Misusef("--depth-for %g: add --q, the probability that a visitor goes one link deeper, such as 0.6", d.share)
	case d.share == 0:
		return command.Misusef("--q %s: add --depth-for, the share of what visitors see, such as 0.9", d.q)
	case !(d.share > 0 && d.share < 1):
		return command.Misusef("--depth-for %g: want a share between 0 and 1", d.share)
	}
	m, err := browse.ParseModel(d.q)
	if err != nil {
		return command.Misusef("--q %s: %v", d.q, err)
	}
	k, err := m.StopDepth(d.share)
	if err != nil {
		return command.Misusef("--depth-for %g: %v", d.share, err)
	}
	limit := strconv.Itoa(max(1, k))
	fs.Visit(func(f *flag.Flag) {
		if (f.Name == "max-depth" || f.Name == "max-depth-dynamic") && f.Value.String() != limit { // "crawler config --all" prints it
			err = command.Misusef("--depth-for %g limits the depth to %s, and --%s to %s: remove one of them", d.share, limit, f.Name, f.Value)
		}
	})
	return errors.Join(err, fs.Set("max-depth", limit), fs.Set("max-depth-dynamic", limit))
}
