package server

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"weir/internal/testenv"
)

// TestAbstractUnixSocket binds a name that is no file beside a file of this name.
func TestAbstractUnixSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	abstract := fmt.Sprintf("@weir-%d-%d", os.Getpid(), time.Now().UnixNano())
	write(t, abstract, "precious")
	listener := testenv.Must(listenUnix(abstract))(t)
	defer listener.Close()
	if conn, err := net.Dial("unix", abstract); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
	if content, err := os.ReadFile(abstract); string(content) != "precious" {
		t.Errorf("the file holds %q (%v)", content, err)
	}
}
