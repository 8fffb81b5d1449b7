package settings

// Store says what counters there are and what they count.
type Store struct {
	BackendType Backend `env:"BACKEND_TYPE" default:"redis" help:"Only 'redis' is supported."`

	Keys
	Charging

	MemoryMaxCounters int `env:"MEMORY_MAX_COUNTERS" default:"1000000" min:"1000" help:"Most counters kept in memory, 68 bytes each and as much as their keys. Beyond it, those least used are given up, and those that deny last." unit:"counters"`
}

// Keys says how the keys of counters are spelled.
type Keys struct {
	CacheKeyPrefix     KeyPrefix `env:"CACHE_KEY_PREFIX" placeholder:"PREFIX" help:"Start of every counter's key, to keep deployments apart that share a Redis. May not contain '|', nor '{' in a cluster."`
	CacheKeyHashValues bool      `env:"CACHE_KEY_HASH_VALUES" default:"false" help:"Spell descriptor values in keys as digests, for privacy."`
}

// Charging says which denied requests are counted.
type Charging struct {
	StopWhenOverLimit Choice `name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" placeholder:"true|false" help:"Whether a denied request is kept out of the counters: true, always; false, never, as by default in envoyproxy/ratelimit. If it is not set, only a descriptor with its own hits_addend, such as the tokens of an answer, is counted although its request is denied, and a peek at a used-up limit is denied, too, which false lets pass. The field charge of a limit wins." unit:"switch"`
}
