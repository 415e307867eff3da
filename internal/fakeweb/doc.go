// Package fakeweb is a Web of many sites in one process, for tests: honest
// ones, and every kind of trouble that a crawler meets. It has a network in
// memory and a resolver, and keeps a log of all accesses, in which a test can
// look for what was not polite.
//
// It is made for testing/synctest: slow sites sleep, and weeks of a crawl pass
// in seconds. What a Web holds depends on its Options and Seed alone.
package fakeweb
