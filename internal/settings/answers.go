package settings

import "time"

// Answers says which requests are taken and what an answer carries.
type Answers struct {
	MaxDescriptors int `env:"MAX_DESCRIPTORS" default:"100" min:"1" max:"10000" help:"Most descriptors of a request. A request with more is refused."`

	MaxConcurrentRequests int           `env:"MAX_CONCURRENT_REQUESTS" default:"0" min:"0" help:"Most requests at a time. More get RESOURCE_EXHAUSTED, or 503 at /json. 0 is no bound."`
	RequestTimeout        time.Duration `env:"REQUEST_TIMEOUT" default:"0s" min:"0s" help:"Longest time for a decision. 0 is no bound but REDIS_OP_TIMEOUT and the caller's deadline."`

	Modes

	ResponseHeaders bool       `name:"limit-response-headers-enabled" env:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false" help:"Let Envoy add these headers to the response."`
	LimitHeader     HeaderName `name:"limit-limit-header" env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit" help:"Header for the limit."`
	RemainingHeader HeaderName `name:"limit-remaining-header" env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining" help:"Header for what is left."`
	ResetHeader     HeaderName `name:"limit-reset-header" env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset" help:"Header for the seconds until the limit is whole again."`

	RequestHeaders         bool       `name:"limit-request-headers-enabled" env:"LIMIT_REQUEST_HEADERS_ENABLED" default:"false" help:"Let Envoy add these headers to the request to the upstream."`
	RequestLimitHeader     HeaderName `name:"limit-request-limit-header" env:"LIMIT_REQUEST_LIMIT_HEADER" default:"RateLimit-Limit" help:"As LIMIT_LIMIT_HEADER."`
	RequestRemainingHeader HeaderName `name:"limit-request-remaining-header" env:"LIMIT_REQUEST_REMAINING_HEADER" default:"RateLimit-Remaining" help:"As LIMIT_REMAINING_HEADER."`
	RequestResetHeader     HeaderName `name:"limit-request-reset-header" env:"LIMIT_REQUEST_RESET_HEADER" default:"RateLimit-Reset" help:"As LIMIT_RESET_HEADER."`

	DynamicMetadata bool `name:"response-dynamic-metadata" env:"RESPONSE_DYNAMIC_METADATA" default:"false" help:"Add domain, descriptors and rule metadata to answers, for Envoy's access log and filters."`
}

// Modes are switches that change every answer.
type Modes struct {
	ShadowMode bool `env:"SHADOW_MODE" default:"false" help:"Deny nothing. Everything is counted; only statuses say what would be denied."`
	QuotaMode  bool `env:"QUOTA_MODE" default:"false" help:"Deny only if all limits of a request are over, as with quota_mode in every rule."`
}
