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

// File is the content of a rule file.
type File struct {
	Name string // as shown in problems
	Data []byte
}

// ReadFiles reads the rule files that paths name.
//
// Of a directory it reads, in the order of names and recursively, files with the
// extension .yaml, .yml, .json or none, but not *_test.yaml, and not names that begin with a
// dot, so that the files of a mounted ConfigMap are read once. Other names are returned in
// skipped. A path that is not a directory is read whatever its name. The error names every
// path that could not be read, or is no regular file.
func ReadFiles(paths ...string) (files []File, skipped []string, err error) {
	var r reader
	for _, path := range paths {
		r.path(path)
	}
	return r.result()
}

// ReadWithSiblings reads as ReadFiles does, and beside path, by the same rules,
// what bears its name with a dot and more, such as config.yaml beside config. If
// it finds any, path itself may be missing.
func ReadWithSiblings(path string) (files []File, skipped []string, err error) {
	var r, siblings reader
	siblings.directory(filepath.Dir(path), filepath.Base(path)+".")
	if _, err := os.Stat(path); len(siblings.files) == 0 || !errors.Is(err, fs.ErrNotExist) {
		r.path(path)
	}
	r.files, r.skipped, r.errs = append(r.files, siblings.files...), append(r.skipped, siblings.skipped...), append(r.errs, siblings.errs...)
	return r.result()
}

// WhySkipped returns why ReadFiles returned a path in skipped.
func WhySkipped(path string) string {
	if holdsRules(path) {
		return "it is a link to a directory"
	}
	return "its name is not that of a file of rules"
}

// NoFiles is the error of callers that need at least one file, where ReadFiles
// found none.
func NoFiles(paths ...string) error {
	return fmt.Errorf("no rule files in %s; Weir reads .yaml, .yml, .json and files without extension, except *_test.yaml and hidden files", strings.Join(paths, ", "))
}

// reader reads files, and notes what it could not read.
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

// path reads a file or a directory.
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

// directory reads what is in dir and has names that begin with prefix. A link to a file is as
// good as the file. One to a directory is not followed: it may lead back up.
func (r *reader) directory(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	r.errs = append(r.errs, err)
	for _, entry := range entries {
		name, path := entry.Name(), filepath.Join(dir, entry.Name())
		if strings.HasPrefix(name, ".") || !strings.HasPrefix(name, prefix) || strings.HasSuffix(name, "_test.yaml") {
			continue
		}
		info, err := os.Stat(path)
		if err == nil && !entry.IsDir() && (info.IsDir() || !holdsRules(path)) {
			r.skipped = append(r.skipped, path)
		} else {
			r.path(path)
		}
	}
}

// holdsRules tells by its name whether a file of a directory is a rule file.
func holdsRules(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json", ""}, filepath.Ext(name))
}

// ReadFile reads a regular file, or what a link to one leads to: one byte more than
// is allowed at most, which Load reports as a problem beside all others. Anything
// else is an error. It does not wait for who writes to a pipe.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened, which may have taken the place of a file
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

// ReadStream reads a file from r, such as the standard input. Problems call it name.
func ReadStream(r io.Reader, name string) (File, error) {
	data, err := io.ReadAll(io.LimitReader(r, strictyaml.MaxFileSize+1))
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return File{Name: name, Data: data}, nil
}
