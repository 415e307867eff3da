// Package protocol is what Parley says.
package protocol
