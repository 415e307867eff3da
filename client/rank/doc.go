// Package rank says how important pages are, from links alone.
package rank
