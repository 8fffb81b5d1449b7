package follow

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"weir/internal/testenv"
)

func TestCredentialsFollowTheFiles(t *testing.T) {
	before, after := testenv.NewAuthority(t), testenv.NewAuthority(t)
	s, c := newSide(t, before, before, "localhost"), newSide(t, before, before, "envoy.example")
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(grpc.Creds(s.server().Credentials()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	defer server.Stop()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	client := c.client().Credentials().Clone()

	check := func() error {
		conn := testenv.Must(grpc.NewClient("passthrough:///localhost:"+port, grpc.WithTransportCredentials(client)))(t)
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	testenv.OK(t, check())
	for _, changed := range []*side{s, c} {
		changed.write("ca.crt", after.PEM())
		testenv.Eventually(t, func() error {
			if check() == nil {
				return errors.New("the old authority is still trusted")
			}
			return nil
		})
		certificate, key := after.Issue(t, "localhost")
		changed.write("tls.crt", certificate)
		changed.write("tls.key", key)
	}
	testenv.Eventually(t, check)
}

func TestRefusedClientsAreToldOfSparingly(t *testing.T) {
	ours, theirs := testenv.NewAuthority(t), testenv.NewAuthority(t)
	s := newSide(t, ours, ours, "weir.example")
	transport := s.server().Credentials()
	dial := func(client func(net.Conn)) {
		t.Helper()
		listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer listener.Close()
		var clients sync.WaitGroup
		clients.Go(func() {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err == nil {
				client(conn)
				conn.Close()
			}
		})
		conn := testenv.Must(listener.Accept())(t)
		if _, _, err := transport.ServerHandshake(conn); err == nil {
			t.Error("let in")
		}
		clients.Wait()
	}
	probe := func(net.Conn) {}
	stranger := func(conn net.Conn) {
		config := newSide(t, theirs, ours).client().TLS().Clone()
		config.ServerName, config.NextProtos = "weir.example", []string{"h2"}
		_, _ = tls.Client(conn, config).Read(make([]byte, 1)) // until it is refused
	}
	for _, step := range []struct {
		client func(net.Conn)
		lines  int
	}{{probe, 0}, {stranger, 1}, {stranger, 1}, {probe, 1}} {
		dial(step.client)
		log := s.log.String()
		if got := strings.Count(log, "TLS client rejected"); got != step.lines {
			t.Fatalf("%d lines, want %d:\n%s", got, step.lines, log)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "client=127.0.0.1:") || !strings.Contains(log, "certificate") {
		t.Errorf("the log says neither who nor why:\n%s", log)
	}
}
