package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/parleyweb/parley/internal/admin"
	"github.com/parleyweb/parley/server"
	"github.com/parleyweb/parley/server/doors"
)

// adminHandler serves /metrics for Prometheus, and /healthz: 200, or 503 until the first scan is complete, while scans fail, and
// while deletions or refusals wait for a person, with the status as JSON in both cases. Behind the guard it serves the page about the
// site, and below /api/ what the holder answers. Streams, scans and checks end when ctx does.
func adminHandler(ctx context.Context, s *sitePage, guard *admin.Guard) http.Handler {
	mux := healthMux(&metrics{s.publisher, s.notifier, s.forms}, func(ctx context.Context) (bool, any) {
		says := struct {
			server.Status
			Log *logHealth `json:"log,omitempty"`
		}{Status: s.publisher.Status()}
		if s.told != nil {
			says.Log = healthOf(ctx, "writer", s.base, s.told.log)
		}
		return says.Whole && !says.MassHeld && says.Error == "" && (s.forms.Evidence == nil || !s.forms.Evidence.Status().Mass), says
	})
	page, guarded := s.page(ctx.Done()), http.NewServeMux()
	guarded.Handle("GET /{$}", page)
	guarded.HandleFunc("GET /events", page.Events)
	guarded.HandleFunc("POST /do/{task}", func(w http.ResponseWriter, r *http.Request) {
		s.do(w, r)
		page.Renew()
	})
	guarded.Handle("/api/", http.StripPrefix("/api", s.holder.Handler()))
	mux.Handle("/", guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		guarded.ServeHTTP(w, r.WithContext(requested))
	})))
	return mux
}

// healthMux serves metrics at /metrics, and at /healthz what a function says, with the status 503 if that is not well.
func healthMux(m *metrics, health func(context.Context) (well bool, says any)) *http.ServeMux {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		well, says := health(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(says)
	})
	return mux
}

// metrics exports the counts of the publisher and the notifier to Prometheus.
type metrics struct {
	p *server.Publisher
	n *doors.Notifier
	f *deliveries // nil: a copy, which has no forms of its own
}

// Describe is empty: the metrics are not checked beforehand.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	s := sender(ch)
	send := s.send
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	p := m.p.Status()
	send(gauge, "items", "Pages that the site offers.", float64(p.Items))
	send(gauge, "held", "Missing pages whose deletion is not announced yet.", float64(p.Held))
	send(gauge, "mass_held", "1 while a mass disappearance of pages waits for confirmation.", flag(p.MassHeld))
	send(gauge, "failing", "1 while the last scan or write failed.", flag(p.Error != ""))
	send(gauge, "head_sequence", "Sequence number of the newest change.", float64(p.Head.Seq))
	send(gauge, "manifest_sequence", "Sequence number of the last change in the published manifest.", float64(p.Manifest.Seq))
	send(gauge, "look_seconds", "Duration of the last scan, in seconds.", p.Last.Duration.Seconds())
	send(counter, "looks_total", "Scans that succeeded.", float64(p.Looks))
	send(counter, "looks_failed_total", "Scans that failed.", float64(p.Failed))
	send(counter, "changes_total", "Changes appended to the journal.", float64(p.Changes))
	send(counter, "changes_missed_total", "Changes that no file system event had reported, found by a regular scan.", float64(p.Missed))
	send(counter, "manifest_writes_total", "Manifests written.", float64(p.Writes))

	s.doors(m.n.Stats())
	if m.f != nil {
		m.collectForms(send)
	}
}

// A sender sends metrics to Prometheus.
type sender chan<- prometheus.Metric

func (s sender) send(kind prometheus.ValueType, name, help string, v float64, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	s <- prometheus.MustNewConstMetric(prometheus.NewDesc("parley_"+name, help, names, nil), kind, v, values...)
}

// doors exports the counts of a notifier.
func (s sender) doors(n doors.Stats) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	send := s.send
	send(gauge, "subscribers", "Streams and waiting long polls.", float64(n.Subscribers))
	send(counter, "streams_total", "Streams opened.", float64(n.Streams))
	send(counter, "frames_total", "Messages sent on streams.", float64(n.Frames))
	send(counter, "told_total", "Changes delivered, counted at each delivery.", float64(n.Told))
	send(counter, "batches_total", "Responses of the changes door, and to requests for bundles and archives.", float64(n.Batches))
	send(counter, "gaps_total", "Streams that fell behind the oldest change in the journal.", float64(n.Gaps))
	send(counter, "slow_total", "Streams closed because their subscriber did not read.", float64(n.Slow))
	send(counter, "manifests_total", "Requests for the manifest.", float64(n.Manifests))
	for status, c := range n.Refused {
		send(counter, "refused_total", "Requests refused, by status.", float64(c), "status", strconv.Itoa(status))
	}
	for form, s := range n.Forms {
		as := string(form)
		send(gauge, "form_streams", "Open streams, by form of delivery.", float64(s.Streams), "as", as)
		send(counter, "form_frames_total", "Messages with changes sent on streams, by form.", float64(s.Frames), "as", as)
		send(counter, "form_answers_total", "Responses to polls, by form.", float64(s.Answers), "as", as)
		send(counter, "form_bytes_total", "Bytes of messages and responses with changes, before content coding, by form.", float64(s.Bytes), "as", as)
	}
}

// collectForms exports the counts of the forms that are in use.
func (m *metrics) collectForms(send func(kind prometheus.ValueType, name, help string, v float64, labels ...string)) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	s := m.f.status(m.n)
	if e := s.Evidence; e != nil {
		mass := 0.0
		if e.Mass {
			mass = 1
		}
		send(gauge, "evidence_public", "Pages that the web server serves to anonymous clients.", float64(e.Public))
		send(gauge, "evidence_refused", "Pages that the web server refuses, and that are withdrawn.", float64(e.Refused))
		send(gauge, "evidence_mass", "1 while the web server refuses so many pages that confirmation is needed.", mass)
	}
	if v := s.Versions; v != nil {
		send(gauge, "versions", "Stored versions of pages.", float64(v.Versions))
		send(gauge, "versions_bytes", "Bytes on disk of the stored versions.", float64(v.Bytes))
		send(counter, "deltas_made_total", "Differences between versions computed.", float64(v.Deltas))
		send(counter, "deltas_told_total", "Requests answered with a difference.", float64(v.Given))
		send(counter, "deltas_refused_total", "Requests for a difference answered without one: a version is not stored, or the page is no larger.", float64(v.Refused))
	}
	if a := s.Archive; a != nil {
		send(counter, "archives_made_total", "Archives of the site made.", float64(a.Made))
		send(counter, "archives_failed_total", "Archives of the site that could not be made.", float64(a.Failed))
		send(gauge, "archive_bytes", "Size of the newest archive, in bytes.", float64(a.Bytes))
		send(gauge, "archive_sequence", "Sequence number of the last change in the newest archive.", float64(a.Cursor.Seq))
	}
	if a := s.Agents; a != nil {
		send(gauge, "agents", "Programs of crawlers stored.", float64(a.Programs))
		send(counter, "agent_runs_total", "Runs of programs.", float64(a.Runs))
		send(counter, "agent_shared_total", "Runs of programs saved because the result was cached.", float64(a.Shared))
		send(counter, "agent_failed_total", "Runs of programs that failed.", float64(a.Failed))
	}
}
