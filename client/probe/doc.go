// Package probe finds out what a site offers to crawlers.
package probe
