package server

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// frames finds the frames in what goes over a connection of HTTP/2 (RFC 9113, section 4.1).
type frames struct {
	skip   int // bytes of the current frame
	header [9]byte
	have   int // bytes of the header of the next one
}

// follow calls see for the frames that begin in p.
func (f *frames) follow(p []byte, see func(kind http2.FrameType, flags http2.Flags, stream uint32)) {
	for len(p) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(p))
			f.skip -= n
			p = p[n:]
			continue
		}
		n := copy(f.header[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have == len(f.header) {
			f.have = 0
			f.skip = int(binary.BigEndian.Uint32(f.header[:]) >> 8)
			see(http2.FrameType(f.header[3]), http2.Flags(f.header[4]), binary.BigEndian.Uint32(f.header[5:])&(1<<31-1))
		}
	}
}
