package tlsfiles

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"weir/internal/testenv"
)

func TestCredentialsFollowTheFiles(t *testing.T) {
	before, after := testenv.NewAuthority(t), testenv.NewAuthority(t)
	s, c := newSide(t, before, before, "localhost"), newSide(t, before, before, "envoy.example")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(s.config(Server).Credentials()))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	defer server.Stop()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	client := c.config(Client).Credentials().Clone()

	check := func() error {
		conn, err := grpc.NewClient("passthrough:///localhost:"+port, grpc.WithTransportCredentials(client))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for _, changed := range []*side{s, c} {
		changed.write("ca.crt", after.PEM())
		eventually(t, func() error {
			if check() == nil {
				return errors.New("the old authority is still trusted")
			}
			return nil
		})
		certificate, key := after.Issue(t, "localhost")
		changed.write("tls.crt", certificate)
		changed.write("tls.key", key)
	}
	eventually(t, check)
}
