package storetest_test

import (
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
)

func TestModel(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, now func() time.Time) limiter.Store { return storetest.NewModel(now) })
}
