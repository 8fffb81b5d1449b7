package settings

import "time"

// Answers says which requests are taken and what an answer carries.
type Answers struct {
	MaxDescriptors int `env:"MAX_DESCRIPTORS" default:"100" min:"1" max:"10000" help:"Most descriptors of one request; a request with more is refused." unit:"descriptors"`

	MaxConcurrentRequests int           `env:"MAX_CONCURRENT_REQUESTS" default:"0" min:"0" help:"Most requests that are decided at a time. More are refused at once, over gRPC with RESOURCE_EXHAUSTED, at /json with status 503. 0 is any number." unit:"requests"`
	RequestTimeout        time.Duration `env:"REQUEST_TIMEOUT" default:"0s" min:"0s" help:"Longest that a decision may take, if the caller's own deadline is not sooner. 0 is no bound; the next that holds is --redis-op-timeout."`

	Modes

	ResponseHeaders bool       `name:"limit-response-headers-enabled" env:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false" help:"Let Envoy add these headers to the response."`
	LimitHeader     HeaderName `name:"limit-limit-header" env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit" help:"Name of the header that holds the limit."`
	RemainingHeader HeaderName `name:"limit-remaining-header" env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining" help:"Name of the header that holds what is left of it."`
	ResetHeader     HeaderName `name:"limit-reset-header" env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset" help:"Name of the header that holds the seconds until the limit is whole again."`

	RequestHeaders         bool       `name:"limit-request-headers-enabled" env:"LIMIT_REQUEST_HEADERS_ENABLED" default:"false" help:"Let Envoy add these headers to the request, for the service behind it."`
	RequestLimitHeader     HeaderName `name:"limit-request-limit-header" env:"LIMIT_REQUEST_LIMIT_HEADER" default:"RateLimit-Limit" help:"As --limit-limit-header, for the request."`
	RequestRemainingHeader HeaderName `name:"limit-request-remaining-header" env:"LIMIT_REQUEST_REMAINING_HEADER" default:"RateLimit-Remaining" help:"As --limit-remaining-header, for the request."`
	RequestResetHeader     HeaderName `name:"limit-request-reset-header" env:"LIMIT_REQUEST_RESET_HEADER" default:"RateLimit-Reset" help:"As --limit-reset-header, for the request."`

	DynamicMetadata bool `name:"response-dynamic-metadata" env:"RESPONSE_DYNAMIC_METADATA" default:"false" help:"Add domain, descriptors and metadata of the rules to the answer, for Envoy's access log and other filters."`
}

// Modes are switches that change every answer.
type Modes struct {
	ShadowMode bool `env:"SHADOW_MODE" default:"false" help:"Deny no request. All is counted, and the statuses of an answer say what they would without this switch; only its overall code is always OK."`
	QuotaMode  bool `env:"QUOTA_MODE" default:"false" help:"Take every limit for a quota, as if its rule had quota_mode: a request is denied only if all its limits are over."`
}
