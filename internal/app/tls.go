package app

import (
	"fmt"
	"log/slog"

	"weir/internal/settings"
	"weir/internal/tlsfiles"
)

// openTLS reads the files of the gRPC listener's TLS, and follows them until
// the result is closed. Without TLS it is nil.
func openTLS(s settings.TLS, logger *slog.Logger) (*tlsfiles.Config, error) {
	if !s.On {
		return nil, nil
	}
	config, err := tlsfiles.Server(tlsfiles.Options{
		CertFile: s.Cert,
		KeyFile:  s.Key,
		CAFile:   s.ClientCA,
		PeerSAN:  s.ClientSAN,
		Logger:   logger,
	})
	if err != nil {
		return nil, fmt.Errorf("TLS of the gRPC listener (see GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY and GRPC_CLIENT_TLS_CACERT): %w", err)
	}
	return config, nil
}
