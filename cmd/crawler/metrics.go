package main

import (
	"net/http"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminHandler serves metrics and health of a crawler.
func adminHandler(c *crawl.Crawler) http.Handler {
	reg := prometheus.NewRegistry()
	gauge := func(name, help string, of func(crawl.Status) float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_crawler_" + name, Help: help},
			func() float64 { return of(c.Status()) }))
	}
	counter := func(name, help string, of func(crawl.Status) int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "parley_crawler_" + name, Help: help},
			func() float64 { return float64(of(c.Status())) }))
	}
	gauge("sites", "Sites that are known.", func(s crawl.Status) float64 { return float64(s.Sites) })
	gauge("sites_in_flight", "Sites that are being asked.", func(s crawl.Status) float64 { return float64(s.InFlight) })
	gauge("sites_followed", "Sites that tell of their changes.", func(s crawl.Status) float64 { return float64(s.Followed) })
	gauge("queue", "Pages that may be asked for now.", func(s crawl.Status) float64 { return float64(s.Queue) })
	counter("requests_total", "Requests.", func(s crawl.Status) int64 { return s.Requests })
	counter("fetched_total", "Pages that came with a body.", func(s crawl.Status) int64 { return s.Fetched })
	counter("unchanged_total", "Pages of which the server said that they had not changed.", func(s crawl.Status) int64 { return s.Unchanged })
	counter("missing_total", "Pages that were not there.", func(s crawl.Status) int64 { return s.Missing })
	counter("refused_total", "Other answers without a page.", func(s crawl.Status) int64 { return s.Refused })
	counter("faults_total", "Requests without an answer, or without a whole one.", func(s crawl.Status) int64 { return s.Faults })
	counter("changed_total", "Pages that were new, or other than before.", func(s crawl.Status) int64 { return s.Changed })
	counter("found_total", "URLs that were not known.", func(s crawl.Status) int64 { return s.New })
	counter("told_total", "Changes that sources told.", func(s crawl.Status) int64 { return s.Told })
	counter("ignored_total", "Of those, how many were not believed.", func(s crawl.Status) int64 { return s.Ignored })
	counter("received_bytes_total", "Bytes of bodies, as they came.", func(s crawl.Status) int64 { return s.Wire })
	m := http.NewServeMux()
	m.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.Status().Running {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ok\n"))
	})
	return m
}
