package follow

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"weir/internal/testenv"
)

func TestWhatIsNoRegularFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe, large := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	testenv.OK(t, errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Symlink(file, link), syscall.Mkfifo(pipe, 0o600),
		os.WriteFile(large, nil, 0o600), os.Truncate(large, maxPEM+1)))
	for path, want := range map[string]error{file: nil, link: nil, pipe: errNotRegular, dir: errNotRegular, "/dev/zero": errNotRegular, large: errTooLarge, dir + "/none": os.ErrNotExist} {
		text, err := PEM(path)
		if !errors.Is(err, want) || want == nil && string(text) != "text" {
			t.Errorf("%s: got %q, error %v, want %v", path, text, err, want)
		}
	}
}
