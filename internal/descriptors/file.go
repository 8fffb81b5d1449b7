package descriptors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"weir/internal/descriptors/strictyaml"
)

// File is a rule file in memory.
type File struct {
	Name string // used in problems
	Data []byte
}

// ReadFiles reads the rule files at paths.
//
// It reads directories recursively, in the order of names. In directories, it reads files with
// the extension .yaml, .yml, .json or none, and returns the paths of other files, and of links to
// directories, in skipped. It ignores *_test.yaml, and names that begin with a dot, because it would
// otherwise read the files of a mounted ConfigMap twice. A file that paths itself contains may have
// any name. The error names every path that cannot be read or is not a regular file.
func ReadFiles(paths ...string) (files []File, skipped []string, err error) {
	var r reader
	for _, path := range paths {
		r.path(path)
	}
	return r.result()
}

// ReadWithSiblings reads path as ReadFiles does, and then the files and directories beside path
// whose names begin with the name of path and a dot, such as config.yaml beside config. If such
// files exist, path itself may be missing.
func ReadWithSiblings(path string) (files []File, skipped []string, err error) {
	var r, siblings reader
	siblings.directory(filepath.Dir(path), filepath.Base(path)+".")
	if _, err := os.Stat(path); len(siblings.files) == 0 || !errors.Is(err, fs.ErrNotExist) {
		r.path(path)
	}
	r.files, r.skipped, r.errs = append(r.files, siblings.files...), append(r.skipped, siblings.skipped...), append(r.errs, siblings.errs...)
	return r.result()
}

// WhySkipped explains why ReadFiles skipped a path.
func WhySkipped(path string) string {
	if isRuleFile(path) {
		return "it is a link to a directory"
	}
	return "its name is not that of a file of rules"
}

// NoFiles returns an error for callers that need at least one file if ReadFiles has found none.
func NoFiles(paths ...string) error {
	return fmt.Errorf("no rule files in %s; Weir reads .yaml, .yml, .json and files without extension, except *_test.yaml and hidden files", strings.Join(paths, ", "))
}

type reader struct {
	files   []File
	skipped []string
	errs    []error
}

func (r *reader) result() (files []File, skipped []string, err error) {
	if err := errors.Join(r.errs...); err != nil {
		return nil, nil, fmt.Errorf("reading rules: %w", err)
	}
	return r.files, r.skipped, nil
}

func (r *reader) path(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.errs = append(r.errs, err)
	case info.IsDir():
		r.directory(path, "")
	default:
		data, err := ReadFile(path)
		r.files, r.errs = append(r.files, File{Name: path, Data: data}), append(r.errs, err)
	}
}

// directory reads the entries of dir whose names begin with prefix. It follows links to files,
// but not links to directories, which may lead to a parent.
func (r *reader) directory(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	r.errs = append(r.errs, err)
	for _, entry := range entries {
		name, path := entry.Name(), filepath.Join(dir, entry.Name())
		if strings.HasPrefix(name, ".") || !strings.HasPrefix(name, prefix) || strings.HasSuffix(name, "_test.yaml") {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && !entry.IsDir() && (info.IsDir() || !isRuleFile(path)) {
			r.skipped = append(r.skipped, path)
		} else {
			r.path(path)
		}
	}
}

// isRuleFile reports whether a file in a directory is a rule file, judging by its name.
func isRuleFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json", ""}, filepath.Ext(name))
}

// ReadFile reads a regular file, or a link to one; anything else is an error. It reads at most
// one byte more than MaxFileSize, so that Load reports a larger file together with all other
// problems. ReadFile never waits for the writer of a pipe.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // not os.Stat, because the path may name another file by now
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file; use a regular file or a link to a regular file")}
	}
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(info.Size(), strictyaml.MaxFileSize+1))
	_, err = io.ReadFull(f, data)
	return data, err
}

// ReadStream reads a file from r, such as the standard input. name is the file's name in problems.
func ReadStream(r io.Reader, name string) (File, error) {
	data, err := io.ReadAll(io.LimitReader(r, strictyaml.MaxFileSize+1))
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return File{Name: name, Data: data}, nil
}
