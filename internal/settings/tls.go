package settings

import "errors"

// TLS says how the gRPC listener encrypts, and what clients must prove. Files
// hold PEM and are read anew when they change.
type TLS struct {
	On        bool   `name:"grpc-server-use-tls" env:"GRPC_SERVER_USE_TLS" default:"false" help:"Speak TLS on the gRPC listener. Needs certificate and key."`
	Cert      string `name:"grpc-server-tls-cert" env:"GRPC_SERVER_TLS_CERT" placeholder:"FILE" help:"Certificate of the gRPC listener, followed by intermediate ones."`
	Key       string `name:"grpc-server-tls-key" env:"GRPC_SERVER_TLS_KEY" placeholder:"FILE" help:"Key of that certificate."`
	ClientCA  string `name:"grpc-client-tls-cacert" env:"GRPC_CLIENT_TLS_CACERT" placeholder:"FILE" help:"Authorities of clients. If set, clients need a certificate of one of them."`
	ClientSAN string `name:"grpc-client-tls-san" env:"GRPC_CLIENT_TLS_SAN" placeholder:"NAME" help:"Name in a client's certificate: DNS name, IP address, URI or email address. Needs GRPC_CLIENT_TLS_CACERT."`
}

// check returns what is missing.
func (s TLS) check() error {
	if !s.On {
		return nil
	}
	var errs []error
	for _, f := range []file{{"GRPC_SERVER_TLS_CERT", s.Cert}, {"GRPC_SERVER_TLS_KEY", s.Key}} {
		if f.path == "" {
			errs = append(errs, f.missing("GRPC_SERVER_USE_TLS", "on"))
		}
	}
	if s.ClientSAN != "" && s.ClientCA == "" {
		errs = append(errs, wrong("GRPC_CLIENT_TLS_SAN", "%q can be checked only with %s", s.ClientSAN, settingName("GRPC_CLIENT_TLS_CACERT")))
	}
	return errors.Join(errs...)
}

// warnings tell of settings that protect nothing.
func (s TLS) warnings() []Warning {
	if s.On {
		return nil
	}
	return unused([]file{
		{"GRPC_SERVER_TLS_CERT", s.Cert}, {"GRPC_SERVER_TLS_KEY", s.Key}, {"GRPC_CLIENT_TLS_CACERT", s.ClientCA}, {"GRPC_CLIENT_TLS_SAN", s.ClientSAN},
	}, "GRPC_SERVER_USE_TLS is off: the gRPC listener speaks no TLS, and its clients are not authenticated")
}
