package settings

// Answers says which requests are taken and what an answer carries.
type Answers struct {
	MaxDescriptors int `env:"MAX_DESCRIPTORS" default:"100" min:"1" max:"10000" help:"Most descriptors of one request; a request with more is refused." unit:"descriptors"`

	ResponseHeaders bool       `name:"limit-response-headers-enabled" env:"LIMIT_RESPONSE_HEADERS_ENABLED" default:"false" help:"Let Envoy add these headers to the response."`
	LimitHeader     HeaderName `name:"limit-limit-header" env:"LIMIT_LIMIT_HEADER" default:"RateLimit-Limit" help:"Name of the header that holds the limit."`
	RemainingHeader HeaderName `name:"limit-remaining-header" env:"LIMIT_REMAINING_HEADER" default:"RateLimit-Remaining" help:"Name of the header that holds what is left of it."`
	ResetHeader     HeaderName `name:"limit-reset-header" env:"LIMIT_RESET_HEADER" default:"RateLimit-Reset" help:"Name of the header that holds the seconds until the limit is whole again."`

	DynamicMetadata bool `name:"response-dynamic-metadata" env:"RESPONSE_DYNAMIC_METADATA" default:"false" help:"Add domain, descriptors and metadata of the rules to the answer, for Envoy's access log."`
}
