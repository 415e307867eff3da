package cluster_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parleyweb/parley/internal/engine/fresh"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/cluster"
)

// demands are keys and values, and whether they are the demand of one of 12 partitions.
var demands = []struct {
	key, value string
	is         bool
}{
	{"demand.1", `{"budget":1,"base":0.5,"bins":[1,2]}`, true},
	{"demand.12", `{}`, true},
	{"demand.12", `{"bins":[` + strings.Repeat("1,", 100_000) + `1]}`, true}, // of which those count that a demand has
	{"demand.0", `{}`, false},
	{"demand.13", `{}`, false},
	{"demand.-1", `{}`, false},
	{"demand.9223372036854775807", `{}`, false},
	{"demand.9223372036854775808", `{}`, false},
	{"demand.1.2", `{}`, false},
	{"demand.", `{}`, false},
	{"demand.1", ``, false},
	{"demand.1", `{"budget":"1"}`, false},
	{"demand.1", `{"budget":1e999}`, false},
}

func TestDemands(t *testing.T) {
	for _, d := range demands {
		if number, _, err := cluster.ParseDemand(d.key, []byte(d.value), 12); (err == nil) != d.is {
			t.Errorf("%s, %.100s: partition %d, %v", d.key, d.value, number, err)
		}
	}
}

func FuzzDemand(f *testing.F) {
	for _, d := range demands {
		f.Add(d.key, []byte(d.value))
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		number, d, err := cluster.ParseDemand(key, value, 12)
		if err != nil {
			return
		}
		sum := new(fresh.Demand)
		sum.Add(d)
		if number < 1 || number > 12 || !(sum.Budget >= 0 && sum.Base >= 0 && sum.Budget+sum.Base < 1e15) {
			t.Fatalf("partition %d of 12: budget %g, base %g", number, sum.Budget, sum.Base)
		}
	})
}

// What others have stored in place of demands counts as none, and is named in the log.
func TestDemandsOfStrangers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	said := make(words, 100)
	parts := make(chan *cluster.Part, 2)
	r.run(&cluster.Node{Name: "node", Partitions: 2, Lease: 5 * time.Second, Snapshots: time.Hour, Log: slog.New(slog.NewTextHandler(said, nil)),
		Engine: func(ctx context.Context, p *cluster.Part) error {
			p.Bid(fresh.Demand{Budget: float64(p.Number)})
			parts <- p
			<-ctx.Done()
			return nil
		}})
	first := <-parts
	if second := <-parts; second.Number == 1 {
		first = second
	}
	r.eventually("the other partition is heard", func() bool { return first.Others().Budget == 2 })
	nc := must.Get(nats.Connect(r.servers.URLs()))
	defer nc.Close()
	keys := must.Get(must.Get(jetstream.New(nc)).KeyValue(t.Context(), "parley-crawl-test"))
	for _, key := range []string{"demand.3", "demand.9223372036854775807", "demand.-1", "demand.x"} {
		must.Get(keys.PutString(t.Context(), key, `{"budget":1000}`))
		said.wait("key=" + key + ` err="want the number of a partition, 1 to 2"`)
	}
	if b := first.Others().Budget; b != 2 {
		t.Errorf("the others bring %g", b)
	}
	must.Get(keys.PutString(t.Context(), "demand.2", "["))
	said.wait(`key=demand.2 err="unexpected end of JSON input"`)
	if b := first.Others().Budget; b != 0 {
		t.Errorf("without a demand the others bring %g", b)
	}
	must.Get(keys.PutString(t.Context(), "demand.2", `{"budget":7}`))
	r.eventually("the next demand is heard", func() bool { return first.Others().Budget == 7 })
}

// words are the lines of a log.
type words chan string

func (w words) Write(text []byte) (int, error) {
	select {
	case w <- string(text):
	default: // nobody reads any more
	}
	return len(text), nil
}

// wait reads until a line has a text.
func (w words) wait(text string) {
	for !strings.Contains(<-w, text) {
	}
}
