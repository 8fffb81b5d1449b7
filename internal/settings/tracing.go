package settings

import (
	"fmt"
	"net/url"
	"strings"
)

// Tracing says whether calls leave traces, and where. Where the collector is,
// and how it is reached, is said by the variables of OpenTelemetry, such as
// OTEL_EXPORTER_OTLP_ENDPOINT.
type Tracing struct {
	Enabled           bool            `name:"tracing-enabled" env:"TRACING_ENABLED" default:"false" help:"Send traces of gRPC calls by OTLP, to OTEL_EXPORTER_OTLP_ENDPOINT."`
	ExporterProtocol  TracingProtocol `name:"tracing-exporter-protocol" env:"TRACING_EXPORTER_PROTOCOL" default:"http" help:"http or grpc."`
	ServiceName       string          `name:"tracing-service-name" env:"TRACING_SERVICE_NAME" default:"RateLimit" help:"Name of this service in traces."`
	ServiceNamespace  string          `name:"tracing-service-namespace" env:"TRACING_SERVICE_NAMESPACE" placeholder:"NAME" help:"Namespace of that name."`
	ServiceInstanceID string          `name:"tracing-service-instance-id" env:"TRACING_SERVICE_INSTANCE_ID" placeholder:"ID" help:"Name of this process in traces. By default a random UUID."`
	SamplingRate      Ratio           `name:"tracing-sampling-rate" env:"TRACING_SAMPLING_RATE" default:"1" help:"Part of the traces that begin here to send, 0 to 1."`

	Headers       Secret `name:"otel-exporter-otlp-headers" env:"OTEL_EXPORTER_OTLP_HEADERS" placeholder:"NAME=VALUE,..." help:"Headers for the collector, values as in URLs, such as Bearer%20TOKEN."`
	TracesHeaders Secret `name:"otel-exporter-otlp-traces-headers" env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS" placeholder:"NAME=VALUE,..." help:"Headers for traces, instead of these."`

	HeadersFile       string `name:"otel-exporter-otlp-headers-file" env:"OTEL_EXPORTER_OTLP_HEADERS_FILE" placeholder:"FILE" help:"File with OTEL_EXPORTER_OTLP_HEADERS, read again every second."`
	TracesHeadersFile string `name:"otel-exporter-otlp-traces-headers-file" env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS_FILE" placeholder:"FILE" help:"The same for traces."`
}

// check looks for what the types cannot say.
func (t Tracing) check() error {
	if !t.Enabled {
		return nil
	}
	_, err := headersOf(t.Headers)
	if err != nil {
		return wrong("OTEL_EXPORTER_OTLP_HEADERS", "%w", err)
	}
	if _, err = headersOf(t.TracesHeaders); err != nil {
		return wrong("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "%w", err)
	}
	return nil
}

// HeaderValues are the headers of traces by name, which have been checked.
func (t Tracing) HeaderValues() map[string]string {
	text := t.TracesHeaders
	if text == "" {
		text = t.Headers
	}
	headers, _ := headersOf(text)
	return headers
}

// headersOf reads headers as OpenTelemetry's exporters do, but refuses what they
// leave out. Its error shows nothing of them, because they may be passwords.
func headersOf(text Secret) (map[string]string, error) {
	headers := map[string]string{}
	for i, pair := range pairs(string(text)) {
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		var known HeaderName
		switch {
		case !found:
			return nil, fmt.Errorf("header %d has no =, allowed are NAME=VALUE, separated by commas", i+1)
		case name == "" || known.UnmarshalText([]byte(name)) != nil:
			return nil, fmt.Errorf("the name of header %d is not allowed, allowed are letters, digits and !#$%%&'*+-.^_`|~", i+1)
		}
		value, err := url.PathUnescape(value)
		if err != nil {
			return nil, fmt.Errorf("the value of header %d has a %% without two hexadecimal digits after it", i+1)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// TracingProtocol is the protocol of traces: http or grpc.
type TracingProtocol string

// Words implements OneOf.
func (TracingProtocol) Words() []string { return []string{"http", "grpc"} }

// UnmarshalText accepts the words in any case.
func (p *TracingProtocol) UnmarshalText(text []byte) error {
	return choose(p, text, "is not a protocol of traces")
}
