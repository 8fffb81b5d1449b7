package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// TestConnectionsAge follows the health check, a call that does not end by itself,
// beyond the age of its connection and its grace.
func TestConnectionsAge(t *testing.T) {
	t.Parallel()
	f := start(t, "--config="+directory(t, limited(3)), "--grpc-max-connection-age=1s", "--grpc-max-connection-age-grace=1s")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	watch, err := grpc_health_v1.NewHealthClient(f.conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Must(watch.Recv())(t)
	if !f.conn.WaitForStateChange(ctx, connectivity.Ready) {
		t.Error("the connection stays")
	}
	for err == nil { // the health may change meanwhile
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a call goes on after the grace: %v", err)
	}
}

// TestPings pings as often as a careful Envoy may, without any request. gRPC
// hangs up on that by itself.
func TestPings(t *testing.T) {
	t.Parallel()
	f := start(t, "--config="+directory(t, limited(3)))
	conn := testenv.Must(net.Dial("tcp", f.grpc.addr()))(t)
	defer conn.Close()
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	// RFC 9113: the preface, empty SETTINGS, and what frames begin with.
	const preface, settings, ping = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 4, 6
	fmt.Fprint(conn, preface, frame(settings, ""))
	for n := range 5 { // by itself gRPC answers four
		if n > 0 {
			testenv.Pass(1100 * time.Millisecond) // since the last answer: at least the second that is allowed
		}
		payload := fmt.Sprintf("ping %3d", n)
		fmt.Fprint(conn, frame(ping, payload))
		for {
			kind, got, err := readFrame(conn)
			if err != nil {
				t.Fatalf("ping %d: %v", n, err)
			}
			if kind == ping && got == payload {
				break
			}
		}
	}
}

// frame is an HTTP/2 frame without flags, of the connection.
func frame(kind byte, payload string) string {
	return string([]byte{0, 0, byte(len(payload)), kind, 0, 0, 0, 0, 0}) + payload
}

func readFrame(r io.Reader) (kind byte, payload string, err error) {
	var header [9]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, "", err
	}
	data := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
	_, err = io.ReadFull(r, data)
	return header[3], string(data), err
}
