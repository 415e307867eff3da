// Package indexnow takes notices of the IndexNow protocol.
package indexnow
