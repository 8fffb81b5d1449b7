package spelling

import (
	"strings"
	"testing"

	"weir/internal/testenv"
)

func TestNearest(t *testing.T) {
	words := []string{"unit", "name", "rate_limit", "redis_tls", "redis_url"}
	for word, want := range map[string]string{
		"unt": "unit", "units": "unit", "uint": "unit", "redis_ulr": "redis_url", "naem": "name", "ratelimit": "rate_limit", "rate": "rate_limit", "ra": "",
		"": "", "n": "", "colour": "", strings.Repeat("rate_limit", 5): "",
	} {
		testenv.Equal(t, Nearest(word, words), want, "%q", word)
	}
}
