// Command model is the upstream of the example. It sends a fixed answer like a
// language model and reports as many tokens as the request permits (max_tokens or
// max_completion_tokens), or as its field use says. If the request sets stream, the answer consists of
// events. It is also the receiver of Weir's events: GET /events returns the last
// one.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8000", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	http.HandleFunc("POST /v1/chat/completions", complete)
	var event atomic.Value
	http.HandleFunc("POST /events", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		event.Store(text)
	})
	http.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) {
		text, _ := event.Load().([]byte)
		_, _ = w.Write(text)
	})
	log.Fatal(http.Serve(listener, nil))
}

func complete(w http.ResponseWriter, r *http.Request) {
	var request struct {
		MaxTokens           int  `json:"max_tokens"`
		MaxCompletionTokens int  `json:"max_completion_tokens"`
		Use                 *int `json:"use"`
		Stream              bool `json:"stream"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, "the body is no request: "+err.Error(), http.StatusBadRequest)
		return
	}
	if request.Use == nil {
		request.Use = new(max(request.MaxTokens, request.MaxCompletionTokens))
	}
	// Writes fail only if the client has disconnected.
	if !request.Stream {
		w.Header().Set("content-type", "application/json")
		fmt.Fprintf(w, `{"choices": [{"message": {"content": "How do you do?"}}], "usage": {"total_tokens": %d}}`+"\n", *request.Use)
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	for _, word := range []string{"How", " do", " you", " do?"} {
		fmt.Fprintf(w, `data: {"choices": [{"delta": {"content": %q}}], "usage": null}`+"\n\n", word)
		_ = http.NewResponseController(w).Flush()
	}
	fmt.Fprintf(w, `data: {"choices": [], "usage": {"total_tokens": %d}}`+"\n\ndata: [DONE]\n\n", *request.Use)
}
