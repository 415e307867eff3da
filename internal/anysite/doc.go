// Package anysite tests Parley's programs on randomly generated sites: a seed draws sites, settings and a
// history, the real programs run through it, and their behavior is recorded for oracles that share no code
// with them.
//
//	PARLEY_ANYSITE=60s go test ./internal/anysite      a minute of seeds, as CI does
//	PARLEY_ANYSITE=10000 go test ...                   that many seeds
//	PARLEY_ANYSITE_SEED=7 go test ...                  one seed, with a full log
//	PARLEY_ANYSITE_WITHOUT=step2,nonce go test ...     without some features or steps
//	PARLEY_ANYSITE_PROGRAMS=DIR go test ...            the programs of DIR
//	PARLEY_ANYSITE_FROM=7, _KEEP=DIR                   first seed, directory for the recordings in which something was found
//	PARLEY_ANYSITE_SHRINK=0 or rate                    report without repeats, or with the rate, failing at half of ten runs
//	PARLEY_ANYSITE_JUDGE=DIR go test -run JudgeAgain   judge stored recordings again
//
// A [Plan] is what a seed draws. [Runner.Run] executes it in a directory: it starts a front server for every
// site, which takes the place of the site's web server or CDN and records all traffic, then the programs,
// then one step after another.
package anysite
