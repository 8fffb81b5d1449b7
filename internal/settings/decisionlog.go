package settings

// DecisionLog says which decisions are logged, and where. A collector is reached as the
// one of traces is, but for its own variables, such as OTEL_EXPORTER_OTLP_LOGS_ENDPOINT.
type DecisionLog struct {
	Decisions Decisions      `name:"decision-log" env:"DECISION_LOG" default:"off" help:"Write a record in JSON for each decision: off, denied (and those denied but for shadow mode) or all."`
	Sample    Ratio          `name:"decision-log-sample" env:"DECISION_LOG_SAMPLE" default:"1" help:"Part of the requests whose decisions to write, 0 to 1."`
	Rate      int            `name:"decision-log-rate" env:"DECISION_LOG_RATE" default:"100" min:"1" max:"1000000" help:"Most records a second. Records left out are counted."`
	To        DecisionLogger `name:"decision-log-to" env:"DECISION_LOG_TO" default:"stdout" help:"stdout, or otlp for the collector at OTEL_EXPORTER_OTLP_ENDPOINT, with the protocol and the service name of traces."`

	LogsHeaders Secret `name:"otel-exporter-otlp-logs-headers" env:"OTEL_EXPORTER_OTLP_LOGS_HEADERS" placeholder:"NAME=VALUE,..." help:"Headers for the decision log, instead of OTEL_EXPORTER_OTLP_HEADERS."`

	LogsHeadersFile string `name:"otel-exporter-otlp-logs-headers-file" env:"OTEL_EXPORTER_OTLP_LOGS_HEADERS_FILE" placeholder:"FILE" help:"File with these headers, read again every second."`
}

// check looks for what the types cannot say. all are the headers for all that is sent.
func (d DecisionLog) check(all Secret) error {
	if d.Decisions == "off" || d.To != "otlp" {
		return nil
	}
	if _, err := headersOf(all); err != nil {
		return wrong("OTEL_EXPORTER_OTLP_HEADERS", "%w", err)
	}
	if _, err := headersOf(d.LogsHeaders); err != nil {
		return wrong("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "%w", err)
	}
	return nil
}

// HeaderValues are the headers for the collector by name, which have been checked. all
// are those for all that is sent.
func (d DecisionLog) HeaderValues(all Secret) map[string]string {
	text := d.LogsHeaders
	if text == "" {
		text = all
	}
	headers, _ := headersOf(text)
	return headers
}

// Decisions says which decisions are logged: off, denied or all.
type Decisions string

// Words implements OneOf.
func (Decisions) Words() []string { return []string{"off", "denied", "all"} }

// UnmarshalText accepts the words in any case.
func (d *Decisions) UnmarshalText(text []byte) error {
	return choose(d, text, "is no choice of decisions")
}

// DecisionLogger is where decisions are logged: stdout or otlp.
type DecisionLogger string

// Words implements OneOf.
func (DecisionLogger) Words() []string { return []string{"stdout", "otlp"} }

// UnmarshalText accepts the words in any case.
func (d *DecisionLogger) UnmarshalText(text []byte) error {
	return choose(d, text, "is no place for decisions")
}
