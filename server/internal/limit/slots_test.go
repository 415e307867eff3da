package limit_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyweb/parley/server/internal/limit"
)

// If slots of all kinds are always wanted, all kinds get about as many.
func TestSlotsRotateAmongKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		had, errs := limit.HeldSlots(ctx, 4+runtime.GOMAXPROCS(0), 2*time.Millisecond)
		if least, most := slices.Min(had[:]), slices.Max(had[:]); least < most/2 || least < 1000 || len(errs) > 0 {
			t.Errorf("slots by kind: %v; %v", had, errs)
		}
	})
}

// Clients with few connections get deliveries before clients with many.
func TestClientsWithFewConnectionsComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			if took := limit.SpreadTime(t.Context(), 4, 1000); took != 0 {
				t.Errorf("an address with four subscribers waits %v", took)
			}
		}
		sum := time.Duration(0)
		for range 100 {
			took := limit.SpreadTime(t.Context(), 16, 1000)
			if sum += took; took > 100*time.Millisecond {
				t.Errorf("an address with sixteen subscribers waits %v", took)
			}
		}
		if sum < 2*time.Second || sum > 8*time.Second {
			t.Errorf("a hundred addresses with sixteen subscribers wait %v in total", sum)
		}
	})
}
