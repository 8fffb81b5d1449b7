package limittest_test

import (
	"context"
	"fmt"

	"weir/internal/offline/limittest"
)

func ExampleFile_Run() {
	file, err := limittest.Load("testdata/calendar_test.yaml", limittest.Options{})
	if err != nil {
		panic(err)
	}
	results, err := file.Run(context.Background(), nil)
	if err != nil {
		panic(err)
	}
	for _, r := range results {
		fmt.Println(r.Test, r.Failures)
	}
	// Output:
	// the hour that comes twice, and the end of October []
	// at the epoch by default []
}
