package limittest_test

import (
	"context"
	"fmt"

	"weir/internal/offline/limittest"
)

func ExampleRun() {
	report := limittest.Run(context.Background(), "testdata/calendar_test.yaml", limittest.Options{}, nil)
	if report.Err != nil {
		panic(report.Err)
	}
	for _, r := range report.Results {
		fmt.Println(r.Test, r.Failures)
	}
	// Output:
	// the hour that comes twice, and the end of October []
	// at the epoch by default []
}
