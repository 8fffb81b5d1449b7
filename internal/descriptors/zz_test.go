package descriptors

import (
	"os"
	"testing"
)

func BenchmarkBig(b *testing.B) {
	data, _ := os.ReadFile("/tmp/rules100k.yaml")
	for b.Loop() {
		if _, err := Load([]File{{"r.yaml", data}}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
