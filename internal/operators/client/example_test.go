package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"weir/internal/operators/client"
)

func Example() {
	time.Local = time.UTC                                                                        // in which times are shown
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // instead of a running Weir
		w.Header().Set("Date", "Sat, 01 Aug 2026 12:00:00 GMT")
		fmt.Fprint(w, `{"exceptions":[{"id":"k7q2","domain":"api","entries":[{"key":"user","value":"alice"}],"effect":"allow",`+
			`"until":"2026-08-01T14:00:00Z","by":"ann","reason":"load test","used":3}],"servers":2}`)
	}))
	defer server.Close()
	c, err := client.New(client.Options{Server: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Ask(context.Background(), client.Exceptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = answer.WriteText(os.Stdout)
	// Output:
	// 1 exception, used on 2 servers (times in UTC):
	//
	// ID    EFFECT  UNTIL           USED  BY   DESCRIPTOR
	// k7q2  allow   14:00:00 (2 h)  3     ann  api user=alice
	//
	// Reasons:
	//   k7q2  load test
	//
	// To remove one: weir except remove ID
}
