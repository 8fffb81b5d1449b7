package accesslog_test

import (
	"fmt"
	"time"

	"weir/internal/offline/simulate/accesslog"
)

// ExampleParser_Parse parses a line in Envoy's default format.
func ExampleParser_Parse() {
	var r accesslog.Record
	p := accesslog.NewParser(accesslog.Auto, accesslog.Mapping{})
	line := `[2026-11-02T09:00:00.5Z] "GET /login HTTP/2" 200 - 0 17 3 2 "192.0.2.7" "curl/8.5.0" "r" "shop.example" "10.0.2.1:80"`
	if err := p.Parse([]byte(line), &r); err != nil {
		panic(err)
	}
	fmt.Println(time.UnixMicro(r.At).UTC().Format(time.RFC3339Nano), r.Method, r.Path, r.Get("x-forwarded-for"))
	// Output: 2026-11-02T09:00:00.5Z GET /login 192.0.2.7
}
