package server_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/parleyweb/parley/internal/journal"
	"github.com/parleyweb/parley/internal/must"
	"github.com/parleyweb/parley/internal/nats/jetlog"
	"github.com/parleyweb/parley/internal/nats/natstest"
	"github.com/parleyweb/parley/protocol"
)

// The doors read a log that came by NATS, and not the journal of the site's Publisher: the same tests pass. The others need the journal
// itself, or count goroutines, among which those of the NATS server would be.
func TestWithLogOfAnotherMachine(t *testing.T) {
	for _, test := range []func(*testing.T){
		TestChanges, TestRefusals, TestDiscovery, TestManifestDoor, TestDoorsIdleClients, TestLongPoll, TestReplayObeysCurrentRules,
		TestAdmission, TestPollingFromAnyCursorYieldsAllPages, TestStream, TestStreamOrigin, TestStreamWatermark,
		TestShutdownSendsBye, TestReconnectGetsEveryChangeOnce, TestPagesComeWithTheirChanges, TestDeltasFollowTheReadersVersion,
		TestMirrorKeptByBundlesEqualsSite, TestEditsCoalesce, TestLargeBundle,
		TestBatchRequestNamesPages, TestBatchOmitsPagesTheClientHas, TestBundleCodings, TestBundleListsPageWithoutItsBytes,
		TestBundlesOmitForbiddenPages, TestForbiddenPagesAreDeliveredInNoForm, TestBundlesWithDifferentIntervals,
		TestReaderAheadOfTheDoor, TestFilteredBundlesHaveAllMatches,
		TestBundleLimits, TestBatchRefusals, TestManifestFeed, TestChangesContentCodings,
		TestAnnounceDoorNeedsToken, TestBundlesAreBounded, TestSubscriberWithRevokedTokenGetsNothing, TestFilteringSubscriberLearnsItsCursor,
		TestFiltersThatMatchNothingDelayNobody, TestAdmissionBehindProxies, TestDoorsBelowAPath, TestPartsDoor, TestRequestBodiesInMemoryAreBounded,
		TestManifestContentCodings, TestManifestDateAhead, TestManyManifestFeeds, TestSlowReaderDoesNotDelayClose, TestSlowReaderIsDisconnected,
		TestSubscriberWithoutPongs, TestChangesAfterArchiveAreReadOnceForAll,
	} {
		name := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		t.Run(name[strings.LastIndex(name, ".")+1:], test)
	}
}

// abroad returns the log that the doors of a test read: the journal, or in TestWithLogOfAnotherMachine a copy of what
// it tells. The function waits until the log has what the journal has.
func abroad(t *testing.T, j *journal.Journal) (protocol.Log, func()) {
	if !strings.HasPrefix(t.Name(), "TestWithLogOfAnotherMachine/") {
		return j, func() {}
	}
	nc := must.Get(nats.Connect(natstest.Start(t, 1).URLs()))
	t.Cleanup(nc.Close)
	stream := must.Get(jetlog.Open(t.Context(), nc, jetlog.Options{Name: "site"}))
	copied := must.Get(journal.Open(filepath.Join(t.TempDir(), "copy"), nil))
	t.Cleanup(func() { copied.Close() })
	told := &jetlog.Log{Stream: stream, Journal: j}
	log := &jetlog.Log{Stream: stream, Journal: copied, Items: func(context.Context) (protocol.Cursor, iter.Seq2[protocol.Item, error], error) {
		v := must.Get(j.View())
		defer v.Close()
		var list []protocol.Item
		for e, err := range v.Entries() {
			must.OK(t, err)
			list = append(list, e.Item)
		}
		return v.Head(), func(yield func(protocol.Item, error) bool) {
			for _, it := range list {
				if !yield(it, nil) {
					return
				}
			}
		}, nil
	}}
	ctx, cancel := context.WithCancel(context.Background())
	ends := make(chan error, 2)
	go func() { ends <- told.Tell(ctx, false) }()
	go func() { ends <- log.Follow(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ends; !errors.Is(err, context.Canceled) && !errors.Is(err, fs.ErrClosed) { // a depot closes its journal first
				t.Error(err)
			}
		}
	})
	return log, func() {
		t.Helper()
		until(t, "the log of the other machine has what the journal has", func() bool { return log.Head() == j.Head() })
	}
}
