package main

import (
	"encoding/binary"
	"io"
	"os"
)

// instructions counts the instructions that the first thread of a process executes in
// user space. Unlike times, the count does not depend on other programs.
type instructions struct{ counter *os.File }

// instructions starts counting, or returns nil if the machine does not allow it.
func (p *program) instructions() *instructions {
	counter := countInstructions(p.pid())
	if counter == nil {
		return nil
	}
	return &instructions{counter}
}

// read returns the count so far.
func (i *instructions) read() (float64, error) {
	var number [8]byte
	_, err := io.ReadFull(i.counter, number[:])
	return float64(binary.NativeEndian.Uint64(number[:])), err
}
