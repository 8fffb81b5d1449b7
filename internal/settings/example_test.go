package settings_test

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"weir/internal/settings"
)

func Example() {
	os.Setenv("LOG_FORMAT", "json")
	defer os.Unsetenv("LOG_FORMAT")

	var s settings.Settings
	parser, err := kong.New(&s, settings.Parsing())
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := parser.Parse([]string{"--port=8090"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Listen.Port, s.Process.LogFormat, s.Process.DrainDelay)

	_, err = parser.Parse([]string{"--drain-timeout=0s"})
	fmt.Println(err)
	// Output:
	// 8090 json 10s
	// --drain-timeout ($DRAIN_TIMEOUT): 0s is not allowed; use 1ms or more
}
