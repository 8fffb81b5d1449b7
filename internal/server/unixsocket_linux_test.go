package server

import (
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbstractUnixSocket binds a name that is no file, where somebody else keeps
// the directory locked in which a file of this name lies.
func TestAbstractUnixSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	abstract := fmt.Sprintf("@weir-%d-%d", os.Getpid(), time.Now().UnixNano())
	write(t, abstract, "precious")
	defer lockDirectory(".")()
	for path, waits := range map[string]time.Duration{"weir.sock": time.Second, abstract: 0} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			listener, err := listenUnix(path)
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begun); waited != waits {
				t.Errorf("%s: bound after %v, want %v", path, waited, waits)
			}
			if conn, err := net.Dial("unix", path); err != nil {
				t.Error(err)
			} else {
				conn.Close()
			}
			listener.Close()
		})
	}
	if content, err := os.ReadFile(abstract); string(content) != "precious" {
		t.Errorf("the file holds %q (%v)", content, err)
	}
}
