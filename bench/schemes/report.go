package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// report prints the measurements, and their signs beside those of the thesis.
func report(out io.Writer, list []result) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "scheme\tbytes\trequests\tserver CPU\tcrawler CPU\tfresh\tignoring minor\tnetwork\tserver\tcrawler\tfreshness")
	var base *result
	for i := range list {
		r := &list[i]
		if r.name == "none" {
			base = r
		}
		if r.nobody {
			fmt.Fprintf(t, "%s\t\t\t%.2f s\n", r.name, r.server.Seconds())
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.2f s\t%.2f s\t%.1f %%\t%.1f %%", r.name, size(r.bytes), r.requests,
			r.server.Seconds(), r.crawler.Seconds(), 100*r.fresh, 100*r.fair)
		if base != nil {
			measured := [4]string{sign(float64(r.bytes), float64(base.bytes)), sign(r.server.Seconds(), base.server.Seconds()),
				sign(r.crawler.Seconds(), base.crawler.Seconds()), "Normal"}
			if 1-max(r.fresh, r.fair) < (1-max(base.fresh, base.fair))/2 {
				measured[3] = "High"
			}
			for i, m := range measured {
				fmt.Fprintf(t, "\t%s", m)
				if m != r.signs[i] {
					fmt.Fprintf(t, " (%s)", r.signs[i])
				}
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nSigns compare with no cooperation: 0 within a quarter, ++ and -- beyond a factor of four. In parentheses: table 6.2 of the thesis, where it differs.")
	return nil
}

// sign compares a cost with that of the base case.
func sign(cost, base float64) string {
	switch q := cost / base; {
	case q > 4:
		return "++"
	case q > 1.25:
		return "+"
	case q < .25:
		return "--"
	case q < .8:
		return "-"
	}
	return "0"
}

// size formats a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	case n >= 1_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0f KB", float64(n)/1e3)
}
