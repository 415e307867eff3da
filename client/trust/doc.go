// Package trust judges what a site's word is worth (C31, C32). It is pure: it
// has no clock, no network and no disk; times are given to it, and what it
// knows of a site is a small [Record] that its caller keeps.
//
// # Notices
//
// A site speaks by several voices: a stream, a manifest, a sitemap, IndexNow.
// Each has its own [Voice] in the record, since a sitemap that lies says
// nothing about a stream that does not. A notice is asked about when it comes
// ([Rules.Notice]) and judged when its page was visited ([Judge],
// [Rules.Outcome]). Two accounts are kept of a voice, both in lies:
//
//	credit   20 at first, at most 40; a lie costs 1, a right notice brings 1/4
//	hope     20 at first, at most 40; a lie costs 1, a right notice brings 3
//
// While there is credit, every notice is taken. Without credit the voice is
// partly honest: of its notices the share is taken that was right lately, until
// credit has come back to 5. Without hope the voice is mute: for an hour, then
// for twice as long each time, up to a week; meanwhile four notices a period are
// taken as samples, and the first of them that is right brings the voice back on
// probation. From this follows, whatever the site does, with R right notices
// and W lies that were fetched:
//
//   - A voice that only lies is mute after 20 lies; one that was honest
//     before, after 40. (Rules.Lies is the 20; all else follows it.)
//   - No voice is thinned out or mute unless, over some stretch of its notices,
//     lies were 20 more than a quarter of the right ones. A site of which 9 in
//     10 notices are right in no order gets there with a probability of 4e-11; a
//     streak of 19 lies is forgiven to anybody, one of 39 to whoever has been honest.
//   - W <= 20 + 3 R + samples + what was under way whenever the voice fell mute, and
//     W < 20 + R/4 for as long as it was neither thinned out nor mute before. Samples
//     are 4 in a mute period, that is 44 in the first month of a liar and 4 a week
//     then. [Rules.Room] bounds what is under way.
//
// A digest judges only a body that is whole and stable: see [Judge] and [Bodies].
//
// Ignoring a notice loses no change for ever: the page is visited when its own
// rate of change says so. A page that is new to the crawler is better admitted
// whoever names it, and then waits for its ordinary turn.
//
// # Dates
//
// [Dates] holds the dates that a site states against what visits show, and
// finds out those that are worth nothing: always now, all alike, frozen, or out
// of this world (P13).
package trust
