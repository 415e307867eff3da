// Package trust judges what a site's word is worth.
package trust
