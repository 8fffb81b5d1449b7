// Command slow is the upstream of the example. Its requests wait until a request for
// /finish, which answers the oldest of them. It answers /quick at once.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	finish := make(chan struct{}) // the longest waiting request receives first
	// Writes fail only if the client has disconnected.
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-finish:
			fmt.Fprintln(w, "done")
		case <-r.Context().Done():
		}
	})
	http.HandleFunc("/quick", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "done") })
	http.HandleFunc("/finish", func(w http.ResponseWriter, r *http.Request) {
		select {
		case finish <- struct{}{}:
			fmt.Fprintln(w, "one request ends")
		case <-r.Context().Done():
		}
	})
	log.Fatal(http.Serve(listener, nil))
}
