package limittest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Suffix is how the names of files of tests end.
const Suffix = "_test.yaml"

// Find returns the files of tests that paths name, in their order: of a directory
// those whose names have the Suffix, below it and in the order of names, without
// what begins with a dot. Any other path is returned as it is. The error tells of
// a directory that cannot be read or has none.
func Find(paths ...string) (files []string, err error) {
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			files = append(files, path) // who reads it says what is wrong
			continue
		}
		found, err := below(path)
		if err != nil {
			return nil, fmt.Errorf("finding tests: %w", err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("finding tests: no file below %s has a name that ends in %s", path, Suffix)
		}
		files = append(files, found...)
	}
	return files, nil
}

func below(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch hidden := path != dir && strings.HasPrefix(entry.Name(), "."); {
		case err != nil:
			return err
		case hidden && entry.IsDir():
			return filepath.SkipDir
		case !hidden && !entry.IsDir() && strings.HasSuffix(path, Suffix):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
