// Package trust judges how reliable a site's notices and dates are (C31, C32). It is pure: it has no clock,
// no network and no disk; times are arguments, and its knowledge of a site is a small [Record] that its
// caller stores.
//
// # Notices
//
// A site speaks by several channels, called sources: a stream, a manifest, a sitemap, IndexNow. Each has its
// own [Source] in the record, since a sitemap that lies says nothing about a stream that does not. A notice
// gets a verdict when it comes ([Rules.Notice]) and is judged when its page was visited ([Judge],
// [Rules.Outcome]). A source has two accounts, both in lies:
//
//	credit        20 at first, at most 40; a lie costs 1, a right notice brings 1/4
//	mute credit   20 at first, at most 40; a lie costs 1, a right notice brings 3
//
// While there is credit, every notice is taken. Without credit the source is partly honest: the share of its
// notices is taken that was right lately, until credit is back to 5. Without mute credit the source is mute: for an
// hour, then for twice as long each time, up to a week; meanwhile four notices a period are taken as samples,
// and the first right one brings the source back on probation. From this follows, whatever the site does, with
// R right notices and W lies that were fetched:
//
//   - A source that only lies is mute after 20 lies; one that was honest before, after 40. (Rules.Lies
//     is the 20; all else follows it.)
//   - No source is thinned out or mute unless, over some stretch of its notices, lies were 20 more than
//     a quarter of the right ones. If 9 in 10 notices of a site are right, in random order, the
//     probability of that is 4e-11; a streak of 19 lies is forgiven to any source, one of 39 to a source
//     that was honest before.
//   - W <= 20 + 3 R + samples + the notices in flight whenever the source fell mute, and W < 20 + R/4
//     for as long as it was neither thinned out nor mute before. Samples are 4 in a mute period, that
//     is 44 in the first month of a liar and 4 a week then. [Rules.MaxInFlight] limits the notices in flight.
//
// A digest judges only a body that is whole and stable: see [Judge] and [Bodies].
//
// Ignoring a notice loses no change for ever: the page is still visited by its own rate of change. A page
// that is new to the crawler should be admitted whatever the verdict, and then waits for its ordinary turn.
//
// # Dates
//
// [Dates] compares the dates that a site states with the results of visits, and detects worthless ones:
// always now, all alike, frozen, or absurd (P13).
package trust
