package regularfile

import (
	"errors"
	"io"
	"io/fs"
)

// maxPEM bounds a file of certificates. Those of all public authorities are 300 KB.
const maxPEM = 16 << 20

var errTooLarge = errors.New("it is larger than 16 MiB, which no file of certificates is")

// ReadPEM reads a regular file of certificates or of a key, of 16 MiB at most.
func ReadPEM(path string) ([]byte, error) {
	f, _, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(data) > maxPEM {
		err = &fs.PathError{Op: "read", Path: path, Err: errTooLarge}
	}
	return data, err
}
