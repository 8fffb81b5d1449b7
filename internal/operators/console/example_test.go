package console_test

import (
	"fmt"

	"weir/internal/operators/api"
	"weir/internal/operators/console"
)

func ExampleNew() {
	server := &api.Server{} // that the pages ask
	server.Console = console.New(server, console.Options{})
	for _, e := range server.Console {
		if e.Class == api.Changes {
			fmt.Println(e.Method, e.Path)
		}
	}
	// Output:
	// POST /console/exceptions
	// POST /console/exceptions/remove
	// POST /console/reset
}
