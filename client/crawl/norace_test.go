//go:build !race

package crawl_test

const raceDetector = false
