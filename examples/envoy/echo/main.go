// Command echo is the upstream of the example: it answers every request with
// the request.
package main

import (
	"flag"
	"log"
	"net/http"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "address to listen on")
	flag.Parse()
	log.Printf("listening on %s", *listen)
	log.Fatal(http.ListenAndServe(*listen, http.HandlerFunc(echo)))
}

func echo(w http.ResponseWriter, r *http.Request) {
	// Only a client that has gone fails here.
	_ = r.Write(w)
}
