package bench

// Used are the options of a run as it used them, so that a result shows what it
// is of.
type Used struct {
	Servers     []string `json:"servers"`
	TLS         bool     `json:"tls"`
	Loop        string   `json:"loop"` // open or closed
	Connections int      `json:"connections"`
	Callers     int      `json:"callers"`
	Rate        float64  `json:"rate"` // planned requests per second of an open loop, 0 of a closed one

	DurationSeconds float64 `json:"duration_seconds"` // warm-up included
	WarmupSeconds   float64 `json:"warmup_seconds"`
	Requests        int64   `json:"requests"`        // at most, 0: no bound
	TimeoutSeconds  float64 `json:"timeout_seconds"` // of a request, 0: never

	Domain       string       `json:"domain"`
	Descriptors  [][]Entry    `json:"descriptors"` // the entries of each, with Placeholder for the number of a key
	Keys         int          `json:"keys"`
	Distribution Distribution `json:"distribution"`            // uniform, zipf or hot
	ZipfExponent float64      `json:"zipf_exponent,omitempty"` // of zipf only
	Hits         uint32       `json:"hits"`                    // hits_addend, 0: left out
}

// used returns the options, of which those that are not allowed have been refused.
func (o *Options) used() Used {
	u := Used{
		Servers: o.Servers, TLS: o.TLS != nil, Loop: "closed", Connections: o.Connections, Callers: o.Callers, Rate: o.Rate,
		DurationSeconds: o.Duration.Seconds(), WarmupSeconds: o.Warmup.Seconds(), Requests: o.Requests, TimeoutSeconds: o.Timeout.Seconds(),
		Domain: o.Traffic.Domain, Descriptors: o.Traffic.Descriptors, Keys: o.Traffic.Keys, Distribution: o.Traffic.Distribution, Hits: o.Traffic.Hits,
	}
	if o.Rate > 0 {
		u.Loop = "open"
	}
	if o.Traffic.Distribution == Zipf {
		u.ZipfExponent = o.Traffic.Exponent
	}
	return u
}
