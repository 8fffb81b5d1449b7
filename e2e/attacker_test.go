package e2e

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/internal/testenv"
)

// rateLimitMethod is the path of the call that Envoy makes.
const rateLimitMethod = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// attacker is a client that speaks HTTP/2 frame by frame, so that it can leave
// requests unfinished as no library would.
type attacker struct {
	conn   net.Conn
	out    bytes.Buffer // frames that are not sent yet
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32 // the last one that was opened

	heard chan struct{} // the server has answered a ping
	gone  chan struct{} // closed when the server has hung up
}

// attack connects to a gRPC server. What the server sends is read and dropped.
func attack(t *testing.T, addr string, settings ...http2.Setting) *attacker {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", addr))(t)
	a := &attacker{conn: conn, stream: 1, heard: make(chan struct{}, 1), gone: make(chan struct{})}
	a.framer = http2.NewFramer(&a.out, conn)
	a.hpack = hpack.NewEncoder(&a.block)
	a.out.WriteString(http2.ClientPreface)
	testenv.OK(t, errors.Join(conn.SetDeadline(time.Now().Add(patience)), a.framer.WriteSettings(settings...), a.flush()))
	go a.listen()
	t.Cleanup(func() {
		conn.Close()
		<-a.gone
	})
	return a
}

// listen drops what the server sends, except for answers to pings.
func (a *attacker) listen() {
	defer close(a.gone)
	for {
		frame, err := a.framer.ReadFrame()
		if err != nil && !errors.As(err, new(http2.StreamError)) {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			a.heard <- struct{}{}
		}
	}
}

// open begins a request to method and leaves it open.
func (a *attacker) open(method string, more ...hpack.HeaderField) error {
	a.block.Reset()
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
		{Name: ":authority", Value: "weir"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	}
	for _, f := range append(fields, more...) {
		if err := a.hpack.WriteField(f); err != nil {
			return err
		}
	}
	a.stream += 2
	return a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.block.Bytes(), EndHeaders: true})
}

// flush sends the frames that were made.
func (a *attacker) flush() error {
	_, err := a.conn.Write(a.out.Bytes())
	a.out.Reset()
	return err
}

// strike sends the frames that were made, and waits until the server has read
// them, for a while: it may leave an attacker waiting, or hang up.
func (a *attacker) strike() {
	const while = 3 * time.Second
	_ = a.framer.WritePing(false, [8]byte{})           // into memory
	_ = a.conn.SetWriteDeadline(time.Now().Add(while)) // fails if it has hung up
	if a.flush() != nil {
		return
	}
	select {
	case <-a.heard:
	case <-a.gone:
	case <-time.After(while):
	}
}
