package settings

import (
	"fmt"
	"strings"
)

// settingName is what errors call the setting of a variable: --flag ($VARIABLE).
func settingName(variable string) string {
	return fmt.Sprintf("--%s ($%s)", strings.ToLower(strings.ReplaceAll(variable, "_", "-")), variable)
}

// wrong returns what is wrong with the setting of a variable.
func wrong(variable, format string, args ...any) error {
	return fmt.Errorf("%s: %w", settingName(variable), fmt.Errorf(format, args...))
}

// file is a setting that names one.
type file struct{ variable, path string }

// missing returns the error that f is needed because of another setting.
func (f file) missing(other, is string) error {
	return wrong(f.variable, "a file is needed because %s is %s", settingName(other), is)
}

// checkPair sees to it that a certificate comes with its key, and a key with its
// certificate.
func checkPair(cert, key file) error {
	switch {
	case cert.path != "" && key.path == "":
		return key.missing(cert.variable, "set")
	case cert.path == "" && key.path != "":
		return cert.missing(key.variable, "set")
	}
	return nil
}

// unused warns of files and names that protect nothing, because TLS is off. That
// is no error: envoyproxy/ratelimit starts with them, too.
func unused(files []file, instead string) (warnings []Warning) {
	for _, f := range files {
		if f.path != "" {
			warnings = append(warnings, Warning{f.variable, f.path, instead})
		}
	}
	return warnings
}
