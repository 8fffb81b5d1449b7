package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestLossyWriter writes more than fits to a pipe that nobody reads, and reads it then.
func TestLossyWriter(t *testing.T) {
	const bytes, kept = 1 << 16, lossyBytes>>16 + 1 // with the one that is being written
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		l := newLossyWriter(writer, func(lost int64) { fmt.Fprintf(writer, "lost %d\n", lost) })
		var want strings.Builder
		for n := range kept + 5 {
			line := fmt.Sprintf("%*d\n", bytes-1, n)
			fmt.Fprint(l, line)
			if synctest.Wait(); n < kept {
				want.WriteString(line)
			}
		}
		want.WriteString("lost 5\n")
		l.close(10 * time.Millisecond)
		go func() { <-l.ended; writer.Close() }()
		if text, err := io.ReadAll(reader); err != nil || string(text) != want.String() {
			t.Errorf("%v, got %d bytes, want %d", err, len(text), want.Len())
		}
	})
}

// TestLogThatNobodyReads asks a server for what it logs, and leaves its log unread.
func TestLogThatNobodyReads(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, _, failed := syscall.Syscall(syscall.SYS_FCNTL, write.Fd(), syscall.F_SETPIPE_SZ, 4096); failed != 0 {
		t.Fatal(failed)
	}
	args := append(local[:len(local):len(local)], "--config="+rules(t, "a.yaml", good), "--log-level=debug", "--drain-delay=0s", "--drain-timeout=100ms")
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=1")
	command.Stderr = write
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	defer func() { _ = command.Process.Kill() }()
	url := ""
	log := bufio.NewReader(read)
	for url == "" {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatalf("no address in the log: %v", err)
		}
		if l := listening.FindStringSubmatch(line); l != nil {
			for _, l := range listening.FindAllStringSubmatch(line, -1) {
				if l[1] == "http" {
					url = "http://" + l[2] + "/json"
				}
			}
		}
	}
	client := http.Client{Timeout: time.Minute}
	for n := range 600 { // each makes a line; 4 KiB fill the pipe
		response, err := client.Post(url, "application/json", strings.NewReader(`{"domain": "", "descriptors": []}`))
		if err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		response.Body.Close()
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}
