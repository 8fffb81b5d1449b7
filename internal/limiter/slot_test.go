package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"

	"weir/internal/testenv"
)

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"":          0,
		"123456789": 12739, // 0x31c3, the check value of CRC-16/XMODEM
		"foo":       12182,
		"{foo}.bar": 12182,
		"a{foo}{b}": 12182,
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
	for key, tag := range map[string]string{
		"foo{}{bar}":    "foo{}{bar}",
		"foo{{bar}}zap": "{bar",
		"foo{bar":       "foo{bar",
		"}foo{bar}":     "bar",
	} {
		if got, want := Slot([]byte(key)), int(crc16([]byte(tag)))%slots; got != want {
			t.Errorf("%q: got %d, want %d, the slot of %q", key, got, want, tag)
		}
	}
}

// Redis itself has the last word.
func TestSlotOfRedis(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: testenv.RedisServer(t, "--cluster-enabled", "yes").Addr()})
	defer client.Close()
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		key := fmt.Sprintf("%x", random.Uint64())
		for range random.IntN(6) { // braces, wherever they fall
			i := random.IntN(len(key) + 1)
			key = key[:i] + []string{"{", "}", "\x00", "\xff"}[random.IntN(4)] + key[i:]
		}
		want, err := client.ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := Slot([]byte(key)); got != int(want) {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}
