// Package holding keeps the mirror of one site: what the site says it has,
// what of it is held, what is owed, and the files.
//
// The state is one bbolt file, the copy a directory of plain files whose names
// follow the URLs. [Holding.Apply] takes in what the site tells and turns
// it into debts: "this URL owes these bytes". [Holding.Next] names the next
// debt, and [Holding.Settle] takes in what paying it gave. The cursor moves
// in the transaction that stores the effect.
//
// A crash at any instant loses nothing and tears nothing. Whatever changes the
// directory is written into the state first, in the transaction that claims
// it, and done right after its commit; the next transaction strikes it out.
// Open does again what the last transaction of a killed process asked for, so
// that the state never speaks of a file that is not there.
package holding
