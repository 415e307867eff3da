package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/parleyweb/parley/client/crawl"
	"github.com/parleyweb/parley/internal/admin"
)

// adminHandler serves metrics and health of a crawler, and behind the guard its page.
func adminHandler(c *crawl.Crawler, guard *admin.Guard, page http.Handler) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics{c})
	m := http.NewServeMux()
	m.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.Status().Running {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ok\n"))
	})
	m.Handle("/", guard.Handler(page))
	return m
}

// metrics are the numbers of one Status, which is costly: it iterates over all sites.
type metrics struct{ crawler *crawl.Crawler }

// Describe is empty: the metrics are not checked beforehand.
func (m metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	s := m.crawler.Status()
	for _, x := range []struct {
		kind       prometheus.ValueType
		name, help string
		value      float64
	}{
		{gauge, "sites", "Known sites.", float64(s.Sites)},
		{gauge, "sites_in_flight", "Sites with open tasks.", float64(s.InFlight)},
		{gauge, "sites_followed", "Followed sites, which publish their changes.", float64(s.Followed)},
		{gauge, "queue", "Pages that may be fetched now, or are being fetched.", float64(s.Queue)},
		{gauge, "waiting", "Pages that wait because similar pages led to nothing new.", float64(s.Waiting)},
		{counter, "requests_total", "Requests.", float64(s.Requests)},
		{counter, "fetched_total", "Pages fetched with a body.", float64(s.Fetched)},
		{counter, "unchanged_total", "Pages that the server reported as unchanged (304).", float64(s.Unchanged)},
		{counter, "missing_total", "Pages that the server reported as missing (404, 410).", float64(s.Missing)},
		{counter, "refused_total", "Other responses without a page.", float64(s.Refused)},
		{counter, "faults_total", "Requests without a complete response.", float64(s.Faults)},
		{counter, "changed_total", "Pages that were new or had changed.", float64(s.Changed)},
		{counter, "found_total", "URLs found that were not known before.", float64(s.New)},
		{counter, "told_total", "Changes announced by sources.", float64(s.Told)},
		{counter, "ignored_total", "Announced changes that were not believed.", float64(s.Ignored)},
		{counter, "delivered_total", "Pages delivered without a request of their own.", float64(s.Delivered)},
		{counter, "delivered_bytes_total", "Decoded bytes of pages delivered without a request of their own.", float64(s.DeliveredBytes)},
		{counter, "received_bytes_total", "Bytes of fetched bodies, as received.", float64(s.Wire)},
		{counter, "listened_bytes_total", "Bytes of manifests, changes, batches, archives and streams received.", float64(s.Listened)},
	} {
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("parley_crawler_"+x.name, x.help, nil, nil), x.kind, x.value)
	}
	received := prometheus.NewDesc("parley_crawler_received_total", "Changes received, by kind of source and outcome.", []string{"source", "outcome"}, nil)
	for by, n := range s.Received {
		for outcome, v := range map[string]int{"processed": n.Processed, "enqueued": n.Enqueued, "ignored": n.Ignored} {
			ch <- prometheus.MustNewConstMetric(received, counter, float64(v), string(by), outcome) // the outcomes of a source add up
		}
	}
}
