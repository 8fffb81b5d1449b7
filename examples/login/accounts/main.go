// Command accounts is the upstream of the example. It has two users with
// passwords, and answers a right password with 200 and a wrong one with 401.
package main

import (
	"crypto/subtle"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
)

var passwords = map[string]string{"alice": "open sesame", "bob": "swordfish"}

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	http.HandleFunc("POST /login", login)
	log.Fatal(http.Serve(listener, nil))
}

func login(w http.ResponseWriter, r *http.Request) {
	var try struct{ User, Password string }
	if err := json.NewDecoder(r.Body).Decode(&try); err != nil {
		http.Error(w, "the body is no login: "+err.Error(), http.StatusBadRequest)
		return
	}
	password, known := passwords[try.User]
	if !known || subtle.ConstantTimeCompare([]byte(password), []byte(try.Password)) == 0 {
		log.Printf("a wrong password for %q", try.User)
		http.Error(w, "wrong user or password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintf(w, "welcome, %s\n", try.User) // fails only if the client has disconnected
}
