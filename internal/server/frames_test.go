package server

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

// TestFramesInPieces follows frames that come in pieces of every length.
func TestFramesInPieces(t *testing.T) {
	var sent bytes.Buffer
	framer := http2.NewFramer(&sent, nil)
	for _, err := range []error{
		framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 300), EndHeaders: true}),
		framer.WriteData(1, true, make([]byte, 70)),
		framer.WriteRSTStream(1<<31-1, http2.ErrCodeCancel),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"SETTINGS 0 0", "HEADERS 4 1", "DATA 1 1", "RST_STREAM 0 2147483647"}
	for size := 1; size <= sent.Len(); size++ {
		var f frames
		var got []string
		for piece := range slices.Chunk(sent.Bytes(), size) {
			f.follow(piece, func(kind http2.FrameType, flags http2.Flags, stream uint32) {
				got = append(got, fmt.Sprint(kind, " ", int(flags), " ", stream))
			})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d bytes: got %q, want %q", size, got, want)
		}
	}
}
