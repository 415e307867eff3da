// Package fakeweb is a Web of many sites in one process, for tests: honest ones, and every kind of trouble
// that a crawler meets. It has a network in memory and a resolver, and logs all accesses, so that a test can
// search the log for impolite ones.
//
// It is made for testing/synctest: slow sites sleep, and weeks of a crawl pass in seconds. The content of a
// Web depends on its Options and Seed alone.
package fakeweb
