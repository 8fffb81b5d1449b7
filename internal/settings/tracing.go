package settings

import (
	"fmt"
	"strings"
)

// Tracing says whether calls leave traces, and where. Where the collector is,
// and how it is reached, is said by the variables of OpenTelemetry, such as
// OTEL_EXPORTER_OTLP_ENDPOINT.
type Tracing struct {
	Enabled           bool            `name:"tracing-enabled" env:"TRACING_ENABLED" default:"false" help:"Send traces of gRPC calls by OTLP. OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry's exporters say where to."`
	ExporterProtocol  TracingProtocol `name:"tracing-exporter-protocol" env:"TRACING_EXPORTER_PROTOCOL" default:"http" help:"Protocol of the traces: http or grpc."`
	ServiceName       string          `name:"tracing-service-name" env:"TRACING_SERVICE_NAME" default:"RateLimit" help:"Name of this service in traces."`
	ServiceNamespace  string          `name:"tracing-service-namespace" env:"TRACING_SERVICE_NAMESPACE" placeholder:"NAME" help:"Namespace of that name."`
	ServiceInstanceID string          `name:"tracing-service-instance-id" env:"TRACING_SERVICE_INSTANCE_ID" placeholder:"ID" help:"What tells this process apart from others of the service. By default a random UUID."`
	SamplingRate      Ratio           `name:"tracing-sampling-rate" env:"TRACING_SAMPLING_RATE" default:"1" help:"Part of the traces that begin here to send, 0 to 1. A trace that began elsewhere is sent if it is there." unit:"number, 0 to 1"`
}

// TracingProtocol is the protocol of traces: http or grpc.
type TracingProtocol string

// UnmarshalText accepts http and grpc, in any case.
func (p *TracingProtocol) UnmarshalText(text []byte) error {
	switch s := strings.ToLower(string(text)); s {
	case "http", "grpc":
		*p = TracingProtocol(s)
		return nil
	default:
		return fmt.Errorf("%q is not a protocol of traces, allowed are http and grpc", text)
	}
}
