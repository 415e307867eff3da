// Package client is how a crawler listens.
package client
