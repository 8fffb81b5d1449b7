package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// countInstructions returns a file from which the number of executed instructions of a
// process can be read, or nil if the machine does not allow it.
func countInstructions(pid int) *os.File {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	fd, err := unix.PerfEventOpen(&attr, pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "instructions")
}
