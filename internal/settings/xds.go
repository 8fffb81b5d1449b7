package settings

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// XDS says whether the rules come from a control plane, and from which.
type XDS struct {
	ConfigType ConfigType `env:"CONFIG_TYPE" default:"FILE" help:"Source of the rules: FILE, or GRPC_XDS_SOTW for a control plane."`

	ServerURL    Target       `name:"config-grpc-xds-server-url" env:"CONFIG_GRPC_XDS_SERVER_URL" default:"localhost:18000" help:"Control plane: host:port or another gRPC target, such as unix:/run/xds.sock."`
	NodeID       string       `name:"config-grpc-xds-node-id" env:"CONFIG_GRPC_XDS_NODE_ID" default:"default" help:"Node for which the control plane has rules."`
	NodeMetadata NodeMetadata `name:"config-grpc-xds-node-metadata" env:"CONFIG_GRPC_XDS_NODE_METADATA" placeholder:"KEY=VALUE,..." help:"Metadata of that node."`
	Headers      Secret       `name:"config-grpc-xds-client-additional-headers" env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS" placeholder:"NAME:VALUE,..." help:"Headers for the control plane."`
	HeadersFile  string       `name:"config-grpc-xds-client-additional-headers-file" env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS_FILE" placeholder:"FILE" help:"File with these headers, read again every second. New streams have the new ones."`

	UseTLS     bool   `name:"config-grpc-xds-server-use-tls" env:"CONFIG_GRPC_XDS_SERVER_USE_TLS" default:"false" help:"Use TLS to the control plane."`
	ClientCert string `name:"config-grpc-xds-client-tls-cert" env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT" placeholder:"PATH" help:"Certificate for the control plane."`
	ClientKey  string `name:"config-grpc-xds-client-tls-key" env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY" placeholder:"PATH" help:"Key of that certificate."`
	ServerCA   string `name:"config-grpc-xds-server-tls-cacert" env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT" placeholder:"PATH" help:"Authorities of the control plane. By default the system's."`
	ServerSAN  string `name:"config-grpc-xds-server-tls-san" env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN" placeholder:"NAME" help:"Name in the control plane's certificate, if not the host in its address."`

	MaxMessageSize int           `name:"xds-client-max-msg-size-in-bytes" env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" default:"4194304" min:"0" max:"2147483647" help:"Largest response of the control plane. 0 is the default."`
	RetryInterval  time.Duration `name:"config-grpc-xds-server-connect-retry-interval" env:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" default:"3s" min:"1ms" help:"First wait after a failed connection, doubled each time; least time between refusals of bad rules."`
	BackoffInitial time.Duration `name:"xds-client-backoff-initial-interval" env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" default:"10s" min:"1ms" help:"First wait after a broken stream, doubled after each one without a response."`
	BackoffMax     time.Duration `name:"xds-client-backoff-max-interval" env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" default:"60s" min:"1ms" help:"Longest of these waits."`
	BackoffRandom  Fraction      `name:"xds-client-backoff-random-factor" env:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" default:"0.5" help:"Part by which these waits vary at random, 0 to 1."`
	BackoffJitter  bool          `name:"xds-client-backoff-jitter" env:"XDS_CLIENT_BACKOFF_JITTER" default:"true" help:"Vary them."`
}

// Enabled reports whether the rules come from a control plane.
func (x XDS) Enabled() bool { return x.ConfigType == fromControlPlane }

// BackoffSpread is the part by which times are made longer or shorter, 0 to 1.
func (x XDS) BackoffSpread() float64 {
	if !x.BackoffJitter {
		return 0
	}
	return float64(x.BackoffRandom)
}

// check looks for what the settings cannot say one by one.
func (x XDS) check() error {
	if _, err := x.HeaderValues(); err != nil {
		return wrong("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "%w", err)
	}
	if !x.Enabled() || !x.UseTLS {
		return nil
	}
	return checkPair(file{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", x.ClientCert}, file{"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", x.ClientKey})
}

// warnings tell of settings that protect nothing.
func (x XDS) warnings() []Warning {
	if !x.Enabled() || x.UseTLS {
		return nil
	}
	return unused([]file{
		{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT", x.ClientCert}, {"CONFIG_GRPC_XDS_CLIENT_TLS_KEY", x.ClientKey},
		{"CONFIG_GRPC_XDS_SERVER_TLS_CACERT", x.ServerCA}, {"CONFIG_GRPC_XDS_SERVER_TLS_SAN", x.ServerSAN},
	}, "CONFIG_GRPC_XDS_SERVER_USE_TLS is off: the control plane is not authenticated")
}

// HeaderValues are the headers by name. Its error shows nothing of them, because
// what is taken for a name may be a password, too.
func (x XDS) HeaderValues() (map[string]string, error) {
	headers := map[string]string{}
	for i, pair := range pairs(string(x.Headers)) {
		name, value, found := strings.Cut(pair, ":")
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case !found:
			return nil, fmt.Errorf("header %d has no colon, allowed are NAME:VALUE, separated by commas", i+1)
		case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || strings.HasPrefix(name, "grpc-"):
			return nil, fmt.Errorf("the name of header %d is not allowed, allowed are letters, digits, -, _ and ., but not grpc- at the beginning", i+1)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			return nil, fmt.Errorf("the value of header %d is not allowed, allowed are printable characters of ASCII", i+1)
		}
		headers[name] = value
	}
	return headers, nil
}

// pairs are what commas separate, without what is empty.
func pairs(text string) (list []string) {
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair != "" {
			list = append(list, pair)
		}
	}
	return list
}

// ConfigType is where the rules come from.
type ConfigType string

const fromControlPlane ConfigType = "GRPC_XDS_SOTW"

// Words implements OneOf.
func (ConfigType) Words() []string { return []string{"FILE", string(fromControlPlane)} }

// UnmarshalText accepts the words in any case.
func (t *ConfigType) UnmarshalText(text []byte) error {
	return choose(t, text, "is not a source of rules")
}

// Target is where a gRPC server is.
type Target string

// UnmarshalText accepts host:port, and targets of gRPC that name their scheme:
// dns:cp:18000, dns:///cp:18000, unix:/run/xds.sock.
func (t *Target) UnmarshalText(text []byte) error {
	s := string(text)
	if strings.Contains(s, "@") && !strings.HasPrefix(s, "unix") { // and do not show it
		return errors.New("it holds an @, allowed are host:port without a user or a password, and targets of gRPC such as unix:/run/xds.sock")
	}
	if scheme, rest, found := strings.Cut(s, ":"); found && slices.Contains(schemes, scheme) && strings.Trim(rest, "/") != "" {
		*t = Target(s)
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil || new(Port).UnmarshalText([]byte(port)) != nil {
		return fmt.Errorf("%q is not a gRPC server, allowed are host:port, and targets of gRPC such as unix:/run/xds.sock", text)
	}
	*t = Target(s)
	return nil
}

// schemes are those that gRPC knows by itself.
var schemes = []string{"dns", "passthrough", "unix", "unix-abstract"}

// NodeMetadata is metadata of an xDS node.
type NodeMetadata map[string]string

// UnmarshalText accepts KEY=VALUE, separated by commas. Its error shows nothing of
// them, because some control planes want a token there.
func (m *NodeMetadata) UnmarshalText(text []byte) error {
	parsed := NodeMetadata{}
	for i, pair := range pairs(string(text)) {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return fmt.Errorf("part %d is not metadata, allowed are KEY=VALUE, separated by commas", i+1)
		}
		parsed[key] = value
	}
	*m = parsed
	return nil
}

// Fraction is a number from 0 to 1.
type Fraction float64

// UnmarshalText accepts a decimal number.
func (f *Fraction) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(0 <= n && n <= 1) {
		return fmt.Errorf("%q is not allowed, allowed are numbers from 0 to 1", text)
	}
	*f = Fraction(n)
	return nil
}
