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
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector(c))
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

// A metric is one number of a Status.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*crawl.Status) float64
}

// metrics are the numbers of one Status, which is costly: it iterates over all sites.
type metrics struct {
	crawler  *crawl.Crawler
	list     []metric
	received *prometheus.Desc // the outcomes of a source add up
}

func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.received
	for _, x := range m.list {
		ch <- x.desc
	}
}

func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.crawler.Status()
	for _, x := range m.list {
		ch <- prometheus.MustNewConstMetric(x.desc, x.kind, x.of(&s))
	}
	for by, n := range s.Received {
		for outcome, v := range map[string]int{"processed": n.Processed, "enqueued": n.Enqueued, "ignored": n.Ignored} {
			ch <- prometheus.MustNewConstMetric(m.received, prometheus.CounterValue, float64(v), string(by), outcome)
		}
	}
}

func collector(c *crawl.Crawler) *metrics {
	number := func(name, help string, kind prometheus.ValueType, of func(*crawl.Status) float64) metric {
		return metric{prometheus.NewDesc("parley_crawler_"+name, help, nil, nil), kind, of}
	}
	received := prometheus.NewDesc("parley_crawler_received_total",
		"Changes received, by kind of source and outcome.", []string{"source", "outcome"}, nil)
	return &metrics{c, []metric{
		number("sites", "Known sites.", prometheus.GaugeValue, func(s *crawl.Status) float64 { return float64(s.Sites) }),
		number("sites_in_flight", "Sites with open tasks.", prometheus.GaugeValue, func(s *crawl.Status) float64 { return float64(s.InFlight) }),
		number("sites_followed", "Followed sites, which publish their changes.", prometheus.GaugeValue, func(s *crawl.Status) float64 { return float64(s.Followed) }),
		number("queue", "Pages that may be fetched now, or are being fetched.", prometheus.GaugeValue, func(s *crawl.Status) float64 { return float64(s.Queue) }),
		number("waiting", "Pages that wait because similar pages led to nothing new.", prometheus.GaugeValue, func(s *crawl.Status) float64 { return float64(s.Waiting) }),
		number("requests_total", "Requests.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Requests) }),
		number("fetched_total", "Pages fetched with a body.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Fetched) }),
		number("unchanged_total", "Pages that the server reported as unchanged (304).", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Unchanged) }),
		number("missing_total", "Pages that the server reported as missing (404, 410).", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Missing) }),
		number("refused_total", "Other responses without a page.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Refused) }),
		number("faults_total", "Requests without a complete response.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Faults) }),
		number("changed_total", "Pages that were new or had changed.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Changed) }),
		number("found_total", "URLs found that were not known before.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.New) }),
		number("told_total", "Changes announced by sources.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Told) }),
		number("ignored_total", "Announced changes that were not believed.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Ignored) }),
		number("delivered_total", "Pages delivered without a request of their own.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Delivered) }),
		number("delivered_bytes_total", "Decoded bytes of pages delivered without a request of their own.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.DeliveredBytes) }),
		number("received_bytes_total", "Bytes of fetched bodies, as received.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Wire) }),
		number("listened_bytes_total", "Bytes of manifests, changes, batches, archives and streams received.", prometheus.CounterValue, func(s *crawl.Status) float64 { return float64(s.Listened) }),
	}, received}
}
