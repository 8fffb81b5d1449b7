// Command echo is the upstream of the example. It answers every request with
// the text of the request.
package main

import (
	"flag"
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
	log.Fatal(http.Serve(listener, http.HandlerFunc(echo)))
}

func echo(w http.ResponseWriter, r *http.Request) {
	// Write fails only if the client has disconnected.
	_ = r.Write(w)
}
