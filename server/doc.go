// Package server is how a site says it.
package server
