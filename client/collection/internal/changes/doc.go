// Package changes is the log of what the crawler has learned: the changes of the stored contents, with numbers that a
// reader can continue after. It is a [journal.Journal] within state.db, so that a program that follows sites can also
// follow a crawler.
//
// A change is stored in the transaction of its cause: after a kill both are there, or neither. Its readers get it, and
// those that wait are woken, once the transaction is durable, the memory of the state has it, the files of a mirror
// are in their places, and the witness names it. So they never see a change before its page, and no change that
// they saw can be lost. If a process was killed before it had moved the files, a later one that only reads hides the
// changes. Readers use short transactions: a slow one keeps nothing of the file from being reused.
//
// # The witness
//
// Somebody may restore state.db from a backup. The numbers after its head have then been used for other changes already,
// and the archive has records that it does not know of. The witness shows that: a file beside the database with the
// head, which is the random name of the epoch and a number. It is written after each commit and before any reader sees
// the changes, so it is never ahead of its state, except of a restored one. It is made durable before a process first
// shows a change; later writes are left to the system, since they survive a kill, and cost no time: after a power
// failure the witness may be behind, which is always allowed.
//
// The archive can grow without a change, and somebody may restore the witness as well, which then proves nothing. So the
// archive has a witness of its own, among its files: the end that the newest commit has named.
//
// When a state is opened that is behind one of them, or of another epoch, or if journal.db is lost, a
// new epoch begins. The transaction in which it begins also forgets the end of the archive, which is otherwise cut off
// there: what is wrong is the state, and not the archive. Contents stay, and a reader that starts over gets them all.
// Only a state that is restored together with journal.db, and has no archive or one that has not grown since, is taken for
// the newest, and uses numbers again: journal.db must not be restored without the archive.
//
// If the journal in the state is damaged, it is replaced by a new one with the stored contents, and a new epoch begins too.
//
// # The version before
//
// Before state.db had the journal, it was a file of its own, whose name the witness has taken: journal.db. Its changes
// were put into an outbox in state.db in the transaction of their cause, appended to the journal after the commit, and
// removed from the outbox by the next transaction, which also stored the journal's head: after a kill the journal had
// the oldest changes of the outbox if and only if its head was further. Such a state is brought over when it is opened for
// writing: the journal is copied in several transactions, and the last one appends what is left of the outbox, and
// makes the state one of the new version. Killed before that, all begins again, and the program before can
// still be used; killed after it, the old journal serves as the witness until the new one replaces it.
//
// The parts of a change that are not for crawlers are stored beside the journal, under the change's number.
package changes
