package settings

// Store says what counters there are and what they count.
type Store struct {
	BackendType Backend `env:"BACKEND_TYPE" default:"redis" help:"Only redis is supported."`

	Keys
	Charging

	MemoryMaxCounters int `env:"MEMORY_MAX_COUNTERS" default:"1000000" min:"1000" help:"Most counters in memory, 68 bytes plus key each. Beyond it the least used go."`
}

// Keys says how the keys of counters are spelled.
type Keys struct {
	CacheKeyPrefix     KeyPrefix `env:"CACHE_KEY_PREFIX" placeholder:"PREFIX" help:"Start of all keys, to keep deployments on one Redis apart. Without '|', in a cluster without '{'."`
	CacheKeyHashValues bool      `env:"CACHE_KEY_HASH_VALUES" default:"false" help:"Hash descriptor values in keys, for privacy."`
}

// Charging says which denied requests are counted.
type Charging struct {
	StopWhenOverLimit Choice `name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" placeholder:"true|false" help:"Count of denied requests: true, never; false, always, and a peek at a used-up limit passes; unset, only if the descriptor has a hits_addend. A limit's charge wins." unit:"switch"`
}
