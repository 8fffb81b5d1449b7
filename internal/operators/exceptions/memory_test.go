package exceptions_test

import (
	"testing"

	"weir/internal/operators/exceptions"
	"weir/internal/operators/exceptions/storetest"
)

func TestMemory(t *testing.T) {
	stores := map[*testing.T]*exceptions.Memory{}
	storetest.Run(t, func(t *testing.T) exceptions.Store {
		if stores[t] == nil {
			stores[t] = new(exceptions.Memory)
		}
		return stores[t]
	})
}
