// Package anysite tries Parley's programs on sites that nobody prepared: a seed
// draws sites, settings and a history, the real programs run through it, and
// what they did is recorded for oracles that share no code with them.
//
//	PARLEY_ANYSITE=60s go test ./internal/anysite      a minute of seeds, as CI does
//	PARLEY_ANYSITE=10000 go test ...                   that many
//	PARLEY_ANYSITE_SEED=7 go test ...                  one, with all that it did
//	PARLEY_ANYSITE_WITHOUT=step2,nonce go test ...     without some of it
//	PARLEY_ANYSITE_PROGRAMS=DIR go test ...            the programs of DIR
//	PARLEY_ANYSITE_FROM=7, _KEEP=DIR                   begin there, keep recordings
//	PARLEY_ANYSITE_SHRINK=0 or rate                    say no more than once, or how often, and fail at half of ten runs
//	PARLEY_ANYSITE_JUDGE=DIR go test -run JudgeAgain   what was kept, judged again
//
// A [Plan] is what a seed draws. [Run] carries it out in a directory: it starts
// a front server for every site, which stands where a site's web server or CDN would and
// writes down all that passes, then the programs, then one step after another.
package anysite
