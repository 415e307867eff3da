// Package rank computes how good pages are: from the links between them, and from what is known of each.
package rank
