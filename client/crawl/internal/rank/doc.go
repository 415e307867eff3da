// Package rank computes the importance of pages from links alone.
package rank
