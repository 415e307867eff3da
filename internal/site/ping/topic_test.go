package ping_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/site/ping"
)

// Strangers decide who subscribes, but not how much is read: a topic is read once for each position in the
// journal, for any number of requests.
func TestTopicIsReadOncePerPosition(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		reads := w.countReads()
		w.sub.verify = nil
		for i := range 20 {
			w.host(fmt.Sprintf("s%d.example", i), w.sub)
			for k := range 4 {
				w.ask("hub.callback", fmt.Sprintf("https://s%d.example/%d", i, k))
			}
		}
		pass(time.Minute)
		st := must.Get(w.hub.Status())
		check(t, "subscribers", st.Topics[0].Subscribers, 80)
		check(t, "reads", reads.all.Load(), 1)
		w.publish("second")
		pass(time.Minute)
		check(t, "reads", reads.all.Load(), 2)
		for i := range 20 {
			check(t, "versions", fmt.Sprint(w.sub.have(fmt.Sprintf("https://s%d.example/3", i))), "[2]")
		}
	})
}

type reads struct{ all, now, most atomic.Int64 }

// countReads restarts the hub with a slow Topic that counts its calls.
func (w *hubWorld) countReads() *reads {
	w.stop()
	var r reads
	w.hub = &ping.Hub{Options: ping.HubOptions{Journal: w.journal, URL: ownHub, Topics: w.hub.Options.Topics, HTTP: w.client(), Log: w.log,
		Topic: func(ctx context.Context, url string) (string, []byte, error) {
			r.all.Add(1)
			r.most.Store(max(r.most.Load(), r.now.Add(1)))
			defer r.now.Add(-1)
			time.Sleep(time.Second)
			return w.feeds.topic(ctx, url)
		}}}
	w.stop = run(w.t, w.hub)
	synctest.Wait()
	return &r
}

// The bodies of two topics are held at a time: subscribers of other topics wait until one is delivered, even
// if one of its subscribers does not answer.
func TestManyTopicsAreDeliveredInTurn(t *testing.T) {
	hubStory(t, func(w *hubWorld) {
		w.hub.Options.Topics = nil
		for i := range 6 {
			topic := fmt.Sprint(base, "feed", i)
			w.hub.Options.Topics = append(w.hub.Options.Topics, topic)
			w.feeds.publish(topic, fmt.Sprint("first of ", i))
		}
		reads := w.countReads()
		slow := newSubscriber(w.world, w.feeds, "slow.example")
		slow.mood = func() string { return "hang" }
		for i, topic := range w.hub.Options.Topics {
			w.ask("hub.topic", topic, "hub.callback", fmt.Sprint("https://reader.example/", i))
			w.ask("hub.topic", topic, "hub.callback", fmt.Sprint("https://slow.example/", i))
			pass(5 * time.Second)
		}
		check(t, "reads at the same time", reads.most.Load(), 1)
		for i, topic := range w.hub.Options.Topics {
			w.feeds.publish(topic, fmt.Sprint("second of ", i))
		}
		w.change(create("a.html"))
		pass(50 * time.Second) // 10 to gather, and 10 for the slow subscriber of every other topic
		for i := range w.hub.Options.Topics {
			check(t, "versions", fmt.Sprint(w.sub.have(fmt.Sprint("https://reader.example/", i))), "[2]")
		}
		if n := reads.most.Load(); n > 2 {
			t.Errorf("%d reads at the same time", n)
		}
	})
}

func TestReadTopic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "feed.xml")
	want := strings.Repeat("x", ping.MaxContent)
	must.Write(t, file, want)
	b, err := ping.ReadTopic(file)
	if err != nil || string(b) != want {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	must.OK(t, os.Truncate(file, ping.MaxContent+1))
	for path, reason := range map[string]string{file: "shorter", filepath.Dir(file): "regular", file + "x": "no such file"} {
		if b, err := ping.ReadTopic(path); err == nil || len(b) > 0 || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
}
