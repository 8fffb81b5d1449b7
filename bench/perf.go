package main

import (
	"encoding/binary"
	"io"
	"os"
)

// instructions counts what the first thread of a process executes outside of the
// kernel. Nothing that runs beside it changes that number, unlike a time.
type instructions struct{ counter *os.File }

// instructions starts counting, or returns nil where the machine does not let us.
func (p *program) instructions() *instructions {
	counter := countInstructions(p.pid())
	if counter == nil {
		return nil
	}
	return &instructions{counter}
}

// read returns the number so far.
func (i *instructions) read() (float64, error) {
	var number [8]byte
	_, err := io.ReadFull(i.counter, number[:])
	return float64(binary.NativeEndian.Uint64(number[:])), err
}
