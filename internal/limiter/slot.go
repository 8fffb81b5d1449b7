package limiter

import "bytes"

// slots is the number of hash slots of a Redis cluster.
const slots = 16384

// Slot is the hash slot of a key in a Redis cluster: the CRC16 of its hash tag,
// the text between the first { and the next }, or of the whole key if there is
// no such text (Redis cluster specification, "Hash tags").
func Slot(key []byte) int {
	if _, rest, ok := bytes.Cut(key, []byte("{")); ok {
		if tag, _, ok := bytes.Cut(rest, []byte("}")); ok && len(tag) > 0 {
			key = tag
		}
	}
	return int(crc16(key)) % slots
}

// crc16 is the CRC-16/XMODEM checksum: polynomial 0x1021, no reflection, from 0.
func crc16(data []byte) uint16 {
	var sum uint16
	for _, b := range data {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			sum <<= 1
			if carry {
				sum ^= 0x1021
			}
		}
	}
	return sum
}
