package settings

import (
	"errors"
	"fmt"
	"os"
)

// TLS says how the gRPC listener encrypts, and what clients must prove. Files
// hold PEM and are read anew when they change.
type TLS struct {
	On        bool   `name:"grpc-server-use-tls" env:"GRPC_SERVER_USE_TLS" default:"false" help:"Speak TLS, 1.2 or later, on the gRPC listener. It needs a certificate and its key."`
	Cert      string `name:"grpc-server-tls-cert" env:"GRPC_SERVER_TLS_CERT" placeholder:"FILE" help:"Certificate of the gRPC listener, with intermediate ones after it."`
	Key       string `name:"grpc-server-tls-key" env:"GRPC_SERVER_TLS_KEY" placeholder:"FILE" help:"Key of that certificate."`
	ClientCA  string `name:"grpc-client-tls-cacert" env:"GRPC_CLIENT_TLS_CACERT" placeholder:"FILE" help:"Authorities of clients. With it clients must show a certificate that comes from one of these."`
	ClientSAN string `name:"grpc-client-tls-san" env:"GRPC_CLIENT_TLS_SAN" placeholder:"NAME" help:"DNS name, IP address, URI or email address that a client's certificate must hold as a subject alternative name. It needs --grpc-client-tls-cacert."`
}

// check tells what is missing.
func (s TLS) check() error {
	if !s.On {
		return nil
	}
	var errs []error
	for _, file := range []struct{ value, flag, variable string }{
		{s.Cert, "grpc-server-tls-cert", "GRPC_SERVER_TLS_CERT"},
		{s.Key, "grpc-server-tls-key", "GRPC_SERVER_TLS_KEY"},
	} {
		if file.value == "" {
			errs = append(errs, fmt.Errorf("--%s ($%s): a file is needed because --grpc-server-use-tls ($GRPC_SERVER_USE_TLS) is on", file.flag, file.variable))
		}
	}
	if s.ClientSAN != "" && s.ClientCA == "" {
		errs = append(errs, fmt.Errorf("--grpc-client-tls-san ($GRPC_CLIENT_TLS_SAN): %q can be checked only with --grpc-client-tls-cacert ($GRPC_CLIENT_TLS_CACERT)", s.ClientSAN))
	}
	return errors.Join(errs...)
}

// warnings tell of variables that protect nothing, because TLS is off. That is
// no error: envoyproxy/ratelimit starts with them, too.
func (s TLS) warnings() (warnings []Warning) {
	if s.On {
		return nil
	}
	for _, name := range []string{"GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT", "GRPC_CLIENT_TLS_SAN"} {
		if value := os.Getenv(name); value != "" {
			warnings = append(warnings, Warning{name, value, "GRPC_SERVER_USE_TLS is off: the gRPC listener speaks no TLS, and its clients are not authenticated"})
		}
	}
	return warnings
}
